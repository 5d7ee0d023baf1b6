"""deploy/kubernetes against Kubernetes' own schemas, and its flags against the real programs."""

import json
import subprocess
import time
import urllib.request

import jsonschema
import kubernetes_validate
import pytest
import yaml
from kubeflow_trainer_api.models import JobsetV1alpha2JobSet
from rustle import BINARY, ROOT, plan, rustle, write_plan

FOLDER = ROOT / "deploy" / "kubernetes"
# The oldest and the newest that are promised: ReadWriteOncePod and claim retention are old by then.
VERSIONS = ("1.30", "1.37")
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
EXAMPLES = sorted(FOLDER.glob("examples/*.yaml"))

# No package of a registry carries these two schemas whole: what is used of them, after the API references of the
# Prometheus Operator (monitoring.coreos.com/v1) and the MPI Operator (kubeflow.org/v2beta1).
SELECTOR = {
    "type": "object",
    "properties": {"matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}},
    "additionalProperties": False,
    "required": ["matchLabels"],
}
SERVICE_MONITOR = {
    "type": "object",
    "properties": {
        "selector": SELECTOR,
        "endpoints": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "port": {"type": "string"},
                    "interval": {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"},
                    "relabelings": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"targetLabel": {"type": "string"}, "replacement": {"type": "string"}},
                            "additionalProperties": False,
                        },
                    },
                },
                "additionalProperties": False,
                "required": ["port"],
            },
        },
    },
    "additionalProperties": False,
    "required": ["selector", "endpoints"],
}
REPLICAS = {
    "type": "object",
    "properties": {"replicas": {"type": "integer", "minimum": 1}, "template": {"type": "object"}},
    "additionalProperties": False,
    "required": ["replicas", "template"],
}
MPI_JOB = {
    "type": "object",
    "properties": {
        "slotsPerWorker": {"type": "integer", "minimum": 1},
        "sshAuthMountPath": {"type": "string"},
        "runPolicy": {
            "type": "object",
            "properties": {
                "cleanPodPolicy": {"enum": ["None", "Running", "All"]},
                "backoffLimit": {"type": "integer", "minimum": 0},
            },
            "additionalProperties": False,
        },
        "mpiReplicaSpecs": {
            "type": "object",
            "properties": {"Launcher": REPLICAS, "Worker": REPLICAS},
            "additionalProperties": False,
            "required": ["Launcher", "Worker"],
        },
    },
    "additionalProperties": False,
    "required": ["mpiReplicaSpecs"],
}


def documents(paths):
    """(file, document) of each."""
    return [(path.name, document) for path in paths for document in yaml.safe_load_all(path.read_text())]


def named(kind, name):
    (found,) = [d for _, d in documents(MANIFESTS) if (d["kind"], d["metadata"]["name"]) == (kind, name)]
    return found


def validate(document):
    for version in VERSIONS:
        kubernetes_validate.validate(document, version, strict=True)


def pod_templates(document):
    """Wherever they are, however deep."""
    if isinstance(document, list):
        document = dict(enumerate(document))
    if isinstance(document, dict):
        if isinstance(document.get("spec"), dict) and "containers" in document["spec"]:
            yield document
        for value in document.values():
            yield from pod_templates(value)


def pods():
    return [(name, pod) for name, document in documents(MANIFESTS + EXAMPLES) for pod in pod_templates(document)]


def lost(given, kept, path=""):
    """What a model dropped: fields that it does not know."""
    if isinstance(given, dict):
        for key, value in given.items():
            yield from lost(value, kept[key], f"{path}.{key}") if key in kept else [f"{path}.{key}"]
    elif isinstance(given, list):
        for index, (one, other) in enumerate(zip(given, kept, strict=True)):
            yield from lost(one, other, f"{path}[{index}]")
    elif given != kept:
        yield f"{path}: {given} became {kept}"


@pytest.mark.parametrize(("file", "document"), documents(MANIFESTS + EXAMPLES))
def test_every_manifest_fits_its_schema(file, document):
    match document["kind"]:
        case "ServiceMonitor":
            assert document["apiVersion"] == "monitoring.coreos.com/v1"
            jsonschema.validate(document["spec"], SERVICE_MONITOR)
        case "MPIJob":
            assert document["apiVersion"] == "kubeflow.org/v2beta1"
            jsonschema.validate(document["spec"], MPI_JOB)
        case "JobSet":
            assert not list(lost(document, JobsetV1alpha2JobSet.from_dict(document).to_dict()))
            for job in document["spec"]["replicatedJobs"]:
                metadata = {"name": job["name"]}
                validate({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job["template"]["spec"]})
        case _:
            validate(document)
    for pod in pod_templates(document):
        validate({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "pod"}, "template": pod})


def test_a_misspelt_field_is_found():
    document = named("StatefulSet", "worker")
    document["spec"]["template"]["spec"]["containers"][0]["securityContext"]["readOnlyRootFileSystem"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(document)
    (jobset,) = [d for _, d in documents(EXAMPLES) if d["kind"] == "JobSet"]
    jobset["spec"]["succesPolicy"] = {}
    assert list(lost(jobset, JobsetV1alpha2JobSet.from_dict(jobset).to_dict())) == [".spec.succesPolicy"]


@pytest.mark.parametrize(("file", "pod"), pods())
def test_pods_may_do_no_more_than_they_must(file, pod):
    """Kubernetes' profile `restricted`, and what it leaves open."""
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True and spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert all({"secret", "persistentVolumeClaim"} & volume.keys() for volume in spec.get("volumes", []))
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False and context["capabilities"] == {"drop": ["ALL"]}
        if container["image"].startswith("rustle:"):
            assert context["readOnlyRootFilesystem"] is True
        assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"]


@pytest.mark.parametrize("name", ["coordinator", "worker"])
def test_services_policies_and_probes_meet_the_pods(name):
    pod = named("StatefulSet", name)["spec"]["template"]
    labels = pod["metadata"]["labels"]
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    service = named("Service", name)
    assert service["spec"]["selector"] == labels and service["spec"]["clusterIP"] == "None"
    assert {port["name"]: port["port"] for port in service["spec"]["ports"]} == ports
    for flag in ("listen", "metrics-listen"):
        address = next(word for word in container["args"] if word.startswith(f"--{flag}="))
        assert int(address.rsplit(":", 1)[1]) in ports.values()
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] in ports
    policy = named("NetworkPolicy", name)["spec"]
    assert policy["podSelector"]["matchLabels"] == labels
    admitted = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
    assert sorted(admitted) == sorted(ports.values())
    assert all(rule["from"] for rule in policy["ingress"]), "open to everyone"
    assert named("PodDisruptionBudget", name)["spec"]["selector"]["matchLabels"] == labels
    monitor = named("ServiceMonitor", f"rustle-{name}")["spec"]
    assert monitor["selector"]["matchLabels"] == service["metadata"]["labels"]
    job = monitor["endpoints"][0]["relabelings"][0]["replacement"]
    assert f'job="{job}"' in (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text()


def commands():
    """(file, program, flags) of every container that runs a coordinator or a worker."""
    for file, pod in pods():
        for container in pod["spec"]["containers"]:
            program, *flags = container.get("args", [None])
            if container["image"].startswith("rustle:") and program != "ledger":
                yield file, program, [flag.replace("$(POD_NAME)", "worker-0").replace("$(INDEX)", "0") for flag in flags]


@pytest.mark.parametrize(("file", "program", "flags"), list(commands()))
def test_the_programs_take_every_flag(file, program, flags):
    names = subprocess.run([BINARY, program, "--help"], capture_output=True, text=True, check=True).stdout.split()
    assert {flag.partition("=")[0] for flag in flags} <= set(names)
    assert program != "worker" or any(flag.startswith("--state-dir=") for flag in flags), "it would not start"
    # A build without etcd refuses it as a store.
    flags = [flag for flag in flags if not flag.startswith("--store")]
    # All words after the program are its own.
    command = [BINARY, "--format", "json", "config", "show", program, "--", *flags]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    shown = {row["name"]: row for row in answer["settings"]}
    given = {flag.removeprefix("--").partition("=")[0].replace("-", "_") for flag in flags}
    for name in given:
        assert shown[name]["source"].startswith("flag"), f"{name} is not what the flag says: {shown[name]}"


LEDGERS = {"ledger.yaml": "coordinator.yaml", "jobset-ledger.yaml": "jobset.yaml"}


def of_coordinator(file):
    """The folder that the coordinator of a manifest keeps its ledger in, and the claim that is mounted there."""
    if file == "coordinator.yaml":
        stateful = named("StatefulSet", "coordinator")
        (claim,) = stateful["spec"]["volumeClaimTemplates"]
        volume, claim = claim["metadata"]["name"], f"{claim['metadata']['name']}-coordinator-0"
        spec = stateful["spec"]["template"]["spec"]
    else:
        specs = [pod["spec"] for name, pod in pods() if name == file]
        (spec,) = [spec for spec in specs if spec["containers"][0]["name"] == "coordinator"]
        (found,) = spec["volumes"]
        volume, claim = found["name"], found["persistentVolumeClaim"]["claimName"]
    (container,) = spec["containers"]
    (folder,) = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == volume]
    assert f"--data-dir={folder}" in container["args"]
    return folder, claim


@pytest.mark.parametrize("file", LEDGERS)
def test_a_ledger_is_begun_once_where_its_coordinator_looks(tmp_path, file):
    """By a Job of its own, which no start of a pod runs again."""
    begun = [document for name, document in documents(EXAMPLES) if name == file]
    assert [document["kind"] for document in begun] == ["PersistentVolumeClaim", "Job"]
    claim, job = begun
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    (volume,) = job["spec"]["template"]["spec"]["volumes"]
    assert volume["name"] == mount["name"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert (mount["mountPath"], claim["metadata"]["name"]) == of_coordinator(LEDGERS[file])
    assert job["spec"]["backoffLimit"] == 0 and job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    words = [word.replace(mount["mountPath"], str(tmp_path / "data")) for word in container["args"]]
    answer = rustle(*words)
    assert (tmp_path / "data" / "ledger.redb").exists() and len(answer["ledger_id"]) == 64
    before = (tmp_path / "data" / "ledger.redb").read_bytes()
    with pytest.raises(AssertionError, match="exists already"):
        rustle(*words)
    assert (tmp_path / "data" / "ledger.redb").read_bytes() == before


def test_no_pod_of_a_coordinator_begins_a_ledger():
    for file, pod in pods():
        assert "initContainers" not in pod["spec"], file


def test_a_coordinator_does_not_start_without_a_ledger(tmp_path):
    words = ["coordinator", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "data"]
    ended = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=60)
    assert ended.returncode and "rustle ledger init" in ended.stderr
    assert not (tmp_path / "data" / "ledger.redb").exists()


def test_what_the_manifests_start_gets_ready(tmp_path):
    """Both programs with the flags as they stand but for folders and addresses, with TLS and secrets of mode 0440."""
    certs = tmp_path / "certs"
    rustle("certs", "new", "--out", certs, "--workers", 1)
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    rustle("key", "new", "--out", secrets / "job.key")
    for part in ("cert", "key"):
        (secrets / f"worker-0.{part}.pem").write_bytes((certs / "worker-0" / f"{part}.pem").read_bytes())
    (secrets / "ca.pem").write_bytes((certs / "ca.pem").read_bytes())
    for file in [*secrets.iterdir(), *(certs / "coordinator").iterdir()]:
        file.chmod(0o440)
    flags = {program: flags for file, program, flags in commands() if file in ("coordinator.yaml", "worker.yaml")}

    def start(program, **replaced):
        words = []
        for flag in flags[program]:
            name, equals, value = flag.removeprefix("--").partition("=")
            if name in ("listen", "metrics-listen"):
                value = "127.0.0.1:0"
            for place, other in replaced.get("places", {}).items():
                value = value.replace(place, str(other))
            value = replaced.get("coordinator", value) if name == "coordinator" else value
            if name != "advertise":
                words.append(f"--{name}{equals}{value}")
        ready = tmp_path / f"{program}.json"
        log = (tmp_path / f"{program}.log").open("w")
        process = subprocess.Popen([BINARY, program, *words, "--ready-file", ready], stderr=log)
        return process, until(lambda: json.loads(ready.read_text()), process)

    rustle("ledger", "init", "--data-dir", tmp_path / "coordinator")
    processes = []
    try:
        places = {"/etc/rustle/tls": certs / "coordinator", "/var/lib/rustle": tmp_path / "coordinator"}
        process, coordinator = start("coordinator", places=places)
        processes.append(process)
        places = {"/etc/rustle/tls": secrets, "/etc/rustle/key": secrets, "/var/lib/rustle": tmp_path / "worker"}
        process, worker = start("worker", places=places, coordinator=coordinator["grpc"])
        processes.append(process)
        assert coordinator["grpc"].startswith("https://") and worker["grpc"].startswith("https://")
        for probed in (coordinator, worker):
            for path in ("/livez", "/readyz"):
                until(lambda: urllib.request.urlopen(probed["metrics"] + path).status == 200, process)
        # JSON logs: each line is an object.
        for line in (tmp_path / "worker.log").read_text().splitlines():
            json.loads(line)
    finally:
        for process in processes:
            process.terminate()
        codes = [process.wait(timeout=30) for process in processes]
    assert codes == [0, 0]


def until(happened, process):
    """What `happened` gives once it neither fails nor says no."""
    deadline = time.monotonic() + 30
    while True:
        assert process.poll() is None, "the process ended"
        try:
            if result := happened():
                return result
        except (OSError, ValueError):
            pass
        assert time.monotonic() < deadline, "not after 30 s"
        time.sleep(0.05)


def test_a_plan_decides_the_workers_resources(tmp_path):
    spec = plan({"name": "blt", "theta": [0.9, 0.5], "omega": [0.1, 0.2]}, 600)
    path = write_plan(tmp_path, spec)
    words = ["--dimension", 1 << 30, "--workers", 16, "--coordinates-per-second", 1e8, "--rows-per-second", 0.5]
    patch = rustle("plan", "resources", "--plan", path, "--kubernetes", *words)
    worker = named("StatefulSet", "worker")
    assert patch["metadata"] == {key: worker["metadata"][key] for key in ("name", "namespace")}
    (container,) = worker["spec"]["template"]["spec"]["containers"]
    (patched,) = patch["spec"]["template"]["spec"]["containers"]
    assert patched.pop("name") == container["name"]
    assert patched["startupProbe"].keys() == container["startupProbe"].keys()
    container.update(patched)
    worker["spec"]["replicas"] = patch["spec"]["replicas"]
    validate(worker)
    assert worker["spec"]["replicas"] == 16
    # 600 rows of 2²⁶ coordinates at 10⁸ a second, in steps of 10 s, after a minute.
    assert container["startupProbe"]["failureThreshold"] == 47
    assert container["resources"]["requests"]["memory"] == container["resources"]["limits"]["memory"]
