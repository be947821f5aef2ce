"""Stands in for a part of mmgen that its package leaves out: StyleGAN's adaptive augmentation. Using it raises."""
