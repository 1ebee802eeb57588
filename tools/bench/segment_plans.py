#!/usr/bin/python3
"""terrace bench plan: models planned by segments, what was predicted beside what steps then take, and simpler choices beside both.

    terrace bench plan --json result.json
    terrace bench plan --quick                          one network, one budget, small batches

Three networks of torchvision and a transformer (resnet50 where --only names it: a round takes twenty minutes) run on CPU tensors beside an emulated device, whose link is so slow that moving
matters. Each is planned by terrace.torch.plan for 75, 50 and 35% of what its step takes without a plan; checkpointing alone
and offload alone, around the same segments, run beside them, and each published policy with --published. Each network is a process of its own;
all its contenders run in turn in each round. A planned step and a plain one, of a copy of the model, take turns: a time is the ratio of
both, and so is what was predicted of it. Medians of pairs and rounds count. Peaks are those of PyTorch's allocator.
"""
import argparse
import copy
import json
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
for place in (HERE.parents[1] / "liballoc/python", HERE.parents[1] / "terrace/python", HERE / "workloads"):
    sys.path.append(str(place))  # a checkout's, an installation's

import machine  # noqa: E402
import targets  # noqa: E402
from sizes import format_size  # noqa: E402

PERCENTS = (75, 50, 35)
PAIRS = 4
ALONE = ("checkpoint", "offload")
PUBLISHED = ("superneurons", "flashneuron", "capuchin")
CLOSE_PEAK, CLOSE_STEP = .05, .1

# name: (batch, batch with --quick, what a sample's size is). Of ResNet-50 so many samples that a third of the memory is more than its
# parameters, their gradients and its first block take.
NETWORKS = {"densenet121": (4, 2, 224), "mobilenet_v2": (8, 4, 224), "efficientnet_b0": (6, 2, 224), "transformer": (4, 2, 256),
            "resnet50": (24, 2, 224)}
BY_NAME = ("resnet50",)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="terrace bench plan", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NETWORK", nargs="+", choices=NETWORKS, help=f"measure these networks only: {', '.join(NETWORKS)} (all but {', '.join(BY_NAME)})")
    parser.add_argument("--percents", type=int, nargs="+", metavar="N", help="plan for budgets of so many percent (75 50 35; 50 with --quick)")
    parser.add_argument("--rounds", type=int, metavar="N", help="measure so many rounds (3; 1 with --quick)")
    parser.add_argument("--device", metavar="cuda[:N]", help="train on this GPU, over its own link (CPU tensors beside an emulated device)")
    parser.add_argument("--link", default="1G", help="let the emulated link move so many bytes a second each way (1G)")
    parser.add_argument("--published", action="store_true", help="also plan as SuperNeurons, FlashNeuron and Capuchin do")
    parser.add_argument("--quick", action="store_true", help="measure densenet121 at 50%% with a batch of 2, once")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--network", choices=NETWORKS, help=argparse.SUPPRESS)  # a child's
    arguments = parser.parse_args()
    arguments.only = arguments.only or (["densenet121"] if arguments.quick else [name for name in NETWORKS if name not in BY_NAME])
    arguments.percents = arguments.percents or ([50] if arguments.quick else list(PERCENTS))
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    if arguments.rounds < 1 or not all(1 <= percent <= 100 for percent in arguments.percents):
        parser.error("--rounds must be at least 1, --percents between 1 and 100")
    return arguments


# A network's process

def contenders(arguments):
    """(policy, percent of the plain step's peak)."""
    for policy in ALONE:
        yield policy, 100
    for policy in ("best", *(PUBLISHED if arguments.published else ())):
        for percent in arguments.percents:
            yield policy, percent


def build(name, samples, size):
    """(model, sample, target)"""
    import torchvision
    from models import CLASSES, LanguageModel, images, token_sequences
    if name == "transformer":
        return LanguageModel(size, 512, 8, 8), *token_sequences(samples, size)
    return getattr(torchvision.models, name)(num_classes=CLASSES), *images(samples, size)


def measure(arguments):
    """Writes a line for each contender of each round."""
    import torch
    batch, small, size = NETWORKS[arguments.network]
    torch.manual_seed(1)
    model, sample, target = (part.to(arguments.device or "cpu") for part in build(arguments.network, small if arguments.quick else batch, size))

    def loss(output):
        return torch.nn.functional.cross_entropy(output, target.flatten())

    for number in range(arguments.rounds):
        for policy, percent in contenders(arguments):
            row = {"round": number, "policy": policy, "percent": percent}
            print(json.dumps(row | run(arguments, model, sample, loss, policy, percent)), flush=True)


def run(arguments, model, sample, loss, policy, percent):
    import terrace.torch
    plain = copy.deepcopy(model)
    try:
        plan = terrace.torch.plan(model, sample, f"{percent}%", loss=loss, policy=policy, curve=False,
                                  device=arguments.device or f"emulated:8G,d2h={arguments.link},h2d={arguments.link}", host_budget="2G")
    except ValueError as error:
        return {"refused": str(error)}
    while plan.measured is None:
        step(model, sample, loss)
    ratios = [step(model, sample, loss) / step(plain, sample, loss) for _ in range(PAIRS)]
    plan.remove()
    counts = {}
    for kind in plan.choices.values():
        counts[kind] = counts.get(kind, 0) + 1
    return {"plain": each(plan.plain), "predicted": each(plan.predicted), "measured": each(plan.measured), "step_ratios": ratios,
            "budget_bytes": plan.budget_bytes, "segments": counts}


def step(model, sample, loss):
    """Seconds."""
    model.zero_grad(set_to_none=True)
    begin = time.perf_counter()
    loss(model(sample)).backward()
    if sample.is_cuda:
        import torch
        torch.cuda.synchronize(sample.device)
    return time.perf_counter() - begin


def each(of):
    return {"peak_bytes": of.peak_bytes, "seconds": of.seconds}


# The rounds of all networks

def rows_of(arguments, network):
    words = [sys.executable, str(Path(__file__).resolve()), "--network", network, "--link", arguments.link, "--rounds", str(arguments.rounds),
             "--percents", *map(str, arguments.percents), *(["--quick"] if arguments.quick else []),
             *(["--device", arguments.device] if arguments.device else []),
             *(["--published"] if arguments.published else [])]
    rounds = {}
    for line in subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        row = json.loads(line)
        rounds.setdefault((row["policy"], row["percent"]), []).append(row)
    return [summary(network, *key, found) for key, found in rounds.items()]


def summary(network, policy, percent, rounds):
    row = {"network": network, "policy": policy, "percent_of_plain_peak": percent}
    refused = [one["refused"] for one in rounds if "refused" in one]
    if refused:
        return row | {"refused": refused[0]}
    plain = median(one["plain"]["peak_bytes"] for one in rounds)
    return row | {
        "plain_peak_bytes": plain,
        "plain_seconds": median(one["plain"]["seconds"] for one in rounds),
        "peak_share": median(one["measured"]["peak_bytes"] / one["plain"]["peak_bytes"] for one in rounds),
        "step_ratio": median(ratio_of(one) for one in rounds),
        "peak_error": median(abs(one["measured"]["peak_bytes"] / one["predicted"]["peak_bytes"] - 1) for one in rounds),
        "step_error": median(abs(ratio_of(one) * one["plain"]["seconds"] / one["predicted"]["seconds"] - 1) for one in rounds),
        "segments": rounds[-1]["segments"], "rounds": rounds}


def ratio_of(one):
    """Of a planned step's time to a plain one's."""
    return median(one["step_ratios"])


def wanted(rows):
    made = []
    for row in rows:
        name = f"{row['network']} {row['policy']} {row['percent_of_plain_peak']}%"
        if row["policy"] != "best":
            continue
        made.append(targets.at_most(f"{name}: error of the peak", row.get("peak_error"), CLOSE_PEAK))
        made.append(targets.at_most(f"{name}: error of the step", row.get("step_error"), CLOSE_STEP))
        for other in rows:
            fits = other.get("peak_share", 2) * 100 <= row["percent_of_plain_peak"]
            if other["network"] == row["network"] and other["policy"] in ALONE and fits and "step_ratio" in row:
                made.append(targets.at_most(f"{name}: step by {other['policy']}'s", row["step_ratio"] / other["step_ratio"], 1.))
    return made


def table(document):
    lines = [f"PyTorch {document['torch']}, torchvision {document['torchvision']}, {document.get('device') or 'link ' + document['link'] + '/s'}", ""]
    for network in document["networks"]:
        rows = [row for row in document["rows"] if row["network"] == network]
        plain = next((row for row in rows if "plain_seconds" in row), None)
        if plain:
            lines.append(f"{network}: plain {format_size(plain['plain_peak_bytes'])}, {plain['plain_seconds']:.3f} s a step")
        for row in rows:
            head = f"  {row['policy']:<13} {row['percent_of_plain_peak']:3d}%"
            if "refused" in row:
                lines.append(f"{head}  {row['refused']}")
                continue
            kinds = ", ".join(f"{kind} {count}" for kind, count in row["segments"].items())
            lines.append(f"{head}  peak {row['peak_share']:6.1%} (predicted within {row['peak_error']:5.1%})   "
                         f"step {row['step_ratio']:.3f} of plain's (within {row['step_error']:5.1%})   {kinds}")
    return "\n".join([*lines, "", *targets.lines(document["targets"])])


def command():
    """This command without --json FILE, which changes nothing and names a place of this machine."""
    words = sys.argv[1:]
    if "--json" in words:
        at = words.index("--json")
        del words[at:at + 2]
    return shlex.join(["terrace", "bench", "plan", *words])


def main():
    arguments = parse_arguments()
    if arguments.network:
        measure(arguments)
        return 0
    import torch
    import torchvision
    rows = [row for network in arguments.only for row in rows_of(arguments, network)]
    document = {"format": "terrace-bench-plan", "version": 1, "torch": torch.__version__, "torchvision": torchvision.__version__,
                "python": platform.python_version(), "threads": torch.get_num_threads(),
                **({"device": arguments.device} if arguments.device else {"link": arguments.link}),
                "networks": arguments.only, "rows": rows, "targets": wanted(rows)}
    commit = machine.commit(HERE)
    document |= {"machine": machine.describe(Path("/var/tmp")), "command": command()}
    document |= {"commit": commit} if commit else {}
    print(table(document))
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
