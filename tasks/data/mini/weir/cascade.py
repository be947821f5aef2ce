"""Weir: water in a cascade of basins, day by day, and the floods at its outlet.

A network is a dictionary from the name of a basin to ``(area, capacity, rate, downstream)``; ``downstream`` is the
name of another basin, or None where the water leaves the network.
"""

import numpy as np


class NetworkError(ValueError):
    """The basins do not form a network that drains."""


class WaterError(ValueError):
    """Amounts of water that cannot be: negative, not finite, or not one for every basin."""


def routing_order(network):
    """Return the names of the basins, such that water only ever flows to a later one."""
    # <paper2code name="order of the basins">
    order, layer = [], [None]
    for _ in network:
        layer = sorted(name for name, basin in network.items() if basin[3] in layer)
        order = layer + order
    if len(order) < len(network):
        raise NetworkError(f"the water of {min(set(network) - set(order))!r} does not leave the network")
    return order
    # </paper2code name="order of the basins">


def running_off(rain, *, thirst=25.0, memory=0.85):
    """Return how much of the rain of every day runs off; the rest soaks into the ground."""
    rain = np.asarray(rain, dtype=float)
    if rain.ndim != 1 or not (rain >= 0.0).all():
        raise WaterError("rain is a sequence of amounts, none of them negative")
    # <paper2code name="rain that runs off">
    wetness, amounts = 0.0, []
    for fallen in rain:
        level = wetness + fallen / 2.0
        amounts.append(fallen * level / (level + thirst))
        wetness = memory * (wetness + fallen - amounts[-1])
    return np.array(amounts)
    # </paper2code name="rain that runs off">


def outflow(stored, capacity, rate):
    """Return how much flows out of a basin that holds ``stored``, over its bed and over its weir."""
    # <paper2code name="outflow over bed and weir">
    if stored <= capacity / 8.0:
        return 0.0
    over_weir = max(stored / capacity - 0.5, 0.0) ** 1.5
    return min(rate * stored + 2.0 * rate * capacity * over_weir, 0.75 * stored)
    # </paper2code name="outflow over bed and weir">


def advance_(storage, inflow, network):
    """Let one day pass: change ``storage`` in place and return a list of ``(name, flow, spill, leaves)``.

    ``storage`` and ``inflow`` are 1-D arrays in the order of ``routing_order``; ``leaves`` is what of this basin's water
    leaves the network on this day.
    """
    order = routing_order(network)
    for amounts in (storage, inflow):
        if amounts.shape != (len(order),) or not np.isfinite(amounts).all() or (amounts < 0.0).any():
            raise WaterError("expected one amount for every basin, none of them negative")
    # <paper2code name="one day of the cascade">
    report, arriving = [], inflow.tolist()
    for place, name in enumerate(order):
        _, capacity, rate, downstream = network[name]
        filled = storage[place] + arriving[place]
        flow = outflow((storage[place] + filled) / 2.0, capacity, rate)
        # <paper2code name="spill over the crest">
        spill = max(filled - flow - capacity, 0.0)
        storage[place] = filled - flow - spill
        # </paper2code name="spill over the crest">
        # <paper2code name="where the water goes">
        beyond = None
        if downstream is not None:
            arriving[order.index(downstream)] += flow
            beyond = network[downstream][3]
        if beyond is not None:
            arriving[order.index(beyond)] += spill
        leaves = (flow if downstream is None else 0.0) + (spill if beyond is None else 0.0)
        # </paper2code name="where the water goes">
        report.append((name, float(flow), float(spill), float(leaves)))
    return report
    # </paper2code name="one day of the cascade">


def flood_events(flows, threshold, *, ease=0.8, gap=2):
    """Return the floods of a series of flows as a list of ``(first, last, peak, volume)``; the rest are days."""
    flows = [float(flow) for flow in flows]
    # <paper2code name="floods of a series">
    spans, start = [], None
    for day, flow in enumerate([*flows, -np.inf]):
        if start is None and flow > threshold:
            start = day
        if start is not None and flow < ease * threshold:
            spans.append((start, day - 1))
            start = None
    # <paper2code name="floods that are one">
    merged = []
    for first, last in spans:
        if merged and first - merged[-1][1] <= gap:
            first = merged.pop()[0]
        merged.append((first, last))
    # </paper2code name="floods that are one">
    events = []
    for first, last in merged:
        volume = sum(flow - threshold for flow in flows[first : last + 1])
        peak = max(range(first, last + 1), key=lambda day: (flows[day], day))
        events.append((first, last, peak, volume))
    return events
    # </paper2code name="floods of a series">


def simulate(network, rain, *, thirst=25.0, memory=0.85):
    """Return the water that leaves an empty network on every day of rain that falls on all basins alike."""
    order = routing_order(network)
    areas = np.array([network[name][0] for name in order], dtype=float)
    storage = np.zeros(len(order))
    leaving = []
    for amount in running_off(rain, thirst=thirst, memory=memory):
        leaving.append(sum(basin[3] for basin in advance_(storage, areas * amount, network)))
    return np.array(leaving)
