"""The cluster of the compose file and of the chart: their processes started as written, and the chart's documents."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
import yaml

from harness.installed import run
from harness.server import ROOT, binary

CHART = ROOT / "packaging" / "helm" / "quartet"
OPTIONS = ["replicas=3", "cluster.etcd.endpoints={etcd-1:2379,etcd-2:2379,etcd-3:2379}", "cluster.etcd.existingSecret=etcd-client"]
OPTIONS += ["cluster.certificates.existingSecret=quartet-nodes", "auth.tokensExistingSecret=quartet-tokens"]
SERVED = ["3 nodes are ready", "another node has it: hello", "stopped 0", "another node is home"]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changing the root needs root")
needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed; `./test packages` builds it")


def rendered(*options: str) -> str:
    chosen = [word for option in options for word in ("--set", option)]
    return run(["helm", "template", "shop", CHART, "--kube-version", "1.30.0", *chosen])


def served(*words: str) -> list[str]:
    command = [sys.executable, "-m", "packages.containers", *words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "QUARTET_BIN": binary(), "PYTHONPATH": str(ROOT / "tests")})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@needs_root
def test_the_nodes_of_the_compose_file_serve():
    """`quartet healthcheck`, the image's, called every node unhealthy that was not home: their answers have no words behind the code."""
    assert served("compose") == SERVED


@needs_root
@needs_helm
def test_the_pods_of_the_chart_serve(tmp_path):
    (tmp_path / "chart.yaml").write_text(rendered(*OPTIONS))
    assert served("chart", str(tmp_path / "chart.yaml")) == SERVED


@needs_helm
def test_the_chart_of_a_cluster_is_well_formed():
    assert "0 chart(s) failed" in run(["helm", "lint", "--strict", CHART, *(word for option in OPTIONS for word in ("--set", option))])
    documents = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(rendered(*OPTIONS, "metrics.serviceMonitor.enabled=true")) if one}
    selector = documents["Service", "shop-quartet"]["spec"]["selector"]
    budget = documents["PodDisruptionBudget", "shop-quartet"]["spec"]
    assert budget == {"maxUnavailable": 1, "selector": {"matchLabels": selector}}
    names = documents["Service", "shop-quartet-nodes"]
    assert names["spec"]["clusterIP"] == "None" and names["spec"]["publishNotReadyAddresses"]
    # Prometheus reads each pod once: the service of names is not the one that it looks for.
    monitor = documents["ServiceMonitor", "shop-quartet"]["spec"]["selector"]
    assert monitor["matchExpressions"] == [{"key": "app.kubernetes.io/component", "operator": "DoesNotExist"}]
    assert "app.kubernetes.io/component" in names["metadata"]["labels"] and "app.kubernetes.io/component" not in selector
    pod = documents["StatefulSet", "shop-quartet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz" and container["lifecycle"]["preStop"] == {"sleep": {"seconds": 5}}
    assert {mount["name"] for mount in container["volumeMounts"]} == {"data", "config", "nodes", "etcd"}
    assert pod["affinity"]["podAntiAffinity"]


@needs_helm
@pytest.mark.parametrize(
    "options, told",
    [
        (["replicas=3"], "needs cluster.etcd.endpoints"),
        ([*OPTIONS, "auth.aclUsers.reader.password=secret"], "users of a cluster are in its data"),
        ([*OPTIONS, "cluster.etcd.existingSecret="], "cluster.etcd.allowClearText"),
        ([*OPTIONS, "cluster.certificates.existingSecret="], "cluster.certificates.existingSecret"),
    ],
)
def test_a_cluster_that_could_not_start_is_refused(options, told):
    with pytest.raises(AssertionError, match=told):
        rendered(*options)


def test_every_alert_of_a_cluster_is_explained():
    page = (ROOT / "docs" / "cluster-operations.md").read_text()
    groups = yaml.safe_load((ROOT / "packaging" / "grafana" / "alerts.yaml").read_text())["groups"]
    (rules,) = [group["rules"] for group in groups if group["name"] == "quartet-cluster"]
    assert [rule["alert"] for rule in rules if f"`{rule['alert']}`" not in page] == []
