"""Reads a page with the Prometheus project's own parsers (Debian: python3-prometheus-client): the strict one of OpenMetrics, and
the one of the older text format, which is what node_exporter's textfile collector reads. Both must read the same. What was
read is written as JSON; a page that is refused ends with exit status 1 and the reason."""
import json
import sys

from prometheus_client import parser as text
from prometheus_client.openmetrics import parser as openmetrics

page = sys.stdin.buffer.read().decode("utf-8")
try:
    families = list(openmetrics.text_string_to_metric_families(page))
    older = list(text.text_string_to_metric_families(page))
except ValueError as e:
    sys.exit(f"refused: {e}")


def samples(families):
    return {f.name: [[sorted(s.labels.items()), repr(float(s.value))] for s in f.samples] for f in families}


if samples(families) != samples(older):
    sys.exit("the two formats differ in what they hold")
json.dump({f.name: {"kind": f.type, "unit": f.unit, "samples": samples([f])[f.name]} for f in families}, sys.stdout)
