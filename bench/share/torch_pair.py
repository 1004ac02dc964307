#!/usr/bin/env python3
"""A PyTorch server beside a PyTorch training run on one GPU: latencies of the server's requests, and the remaining rate
of the training. Each runs alone, as two processes under the driver, under manual MPS, time-sliced, and in pairs.

bench/share/torch_pair.py --cuspan build/release/bin/cuspan [--seconds 20] [--csv FILE]
"""
import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time

PERIOD_S = 0.020
WARM_UP_S = 3.0


def serve(seconds):
    """A small transformer with a request every 20 ms. Prints the latency of each request (ms)."""
    import torch
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 4).cuda().half().eval()
    requests = [torch.randn(4, 64, 512).half() for _ in range(8)]
    with torch.inference_mode():
        def answer(number):
            return model(requests[number % 8].cuda()).float().mean().item()
        for number in range(50):
            answer(number)
        print("ready", flush=True)
        sys.stdin.readline()
        begin = time.perf_counter()
        took = []
        number = 0
        while time.perf_counter() - begin < WARM_UP_S + seconds:
            due = begin + number * PERIOD_S
            if due > time.perf_counter():
                time.sleep(due - time.perf_counter())
            start = time.perf_counter()
            answer(number)
            if start - begin > WARM_UP_S:
                took.append((time.perf_counter() - start) * 1e3)
            number += 1
    print(*(f"{one:.3f}" for one in took), flush=True)


def train(_):
    """A transformer keeping the GPU busy. Prints the number of steps after each step, until it is killed."""
    import torch
    torch.manual_seed(2)
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0)
    model = torch.nn.TransformerEncoder(layer, 6).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    batch = torch.randn(16, 256, 1024, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = (model(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    print("ready", flush=True)
    sys.stdin.readline()
    begin = time.perf_counter()
    steps = 0
    while True:
        loss = step()
        steps += 1
        if steps % 4 == 0:
            loss.item()
            print(f"{time.perf_counter() - begin:.4f} {steps}", flush=True)


class Way:
    """Start of both programs in one arrangement."""

    def __init__(self, name, cuspan, options=None, environment=None):
        self.name, self.cuspan, self.options, self.environment = name, cuspan, options or {}, environment or {}

    def start(self, role, seconds):
        words = [sys.executable, __file__, role, str(seconds)]
        if role in self.options:
            words = [self.cuspan, "run", "--gpus", "1", *self.options[role], "--", *words]
        environment = {**os.environ, **self.environment.get("both", {}), **self.environment.get(role, {})}
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        return process


def run(way, roles, seconds):
    """Runs the roles together and returns their results. The training ends with the server, or after its time."""
    actors = {role: way.start(role, seconds) for role in roles}
    for role, actor in actors.items():
        if actor.stdout.readline().strip() != "ready":
            raise SystemExit(f"{way.name}: {role} did not start")
    for actor in actors.values():
        actor.stdin.write("go\n")
        actor.stdin.flush()
    said = {}
    if "serve" in actors:
        said["serve"] = sorted(float(word) for word in actors["serve"].stdout.read().split())
        actors["serve"].wait()
    else:
        time.sleep(WARM_UP_S + seconds)
    if "train" in actors:
        actors["train"].terminate()
        lines = [line.split() for line in actors["train"].stdout.read().splitlines()]
        actors["train"].wait()
        told = [(float(when), int(steps)) for when, steps in lines if float(when) >= WARM_UP_S]
        said["train"] = (told[-1][1] - told[0][1]) / (told[-1][0] - told[0][0])
    return said


def at(times, part):
    """Nearest-rank quantile of sorted times."""
    return times[max(0, math.ceil(part * len(times)) - 1)]


def tell(name, times):
    print(name, *(f"p{part:g} {at(times, part / 100):.2f}" for part in (50, 90, 95, 98, 99, 100)), file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuspan", required=True)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--csv")
    options = parser.parse_args()
    cuspan = os.path.abspath(options.cuspan)
    alone = Way("alone", cuspan, {"serve": [], "train": []})
    high, low = ["--priority", "high"], ["--priority", "low"]
    ways = [Way("driver", cuspan), Way("turns", cuspan, {"serve": ["--share", *high], "train": ["--share", *low]})]
    folder = tempfile.mkdtemp(prefix="cuspan-bench-")
    mps = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    if shutil.which("nvidia-cuda-mps-control"):
        ways.append(Way("mps", cuspan, environment={"both": mps}))
        ways.append(Way("mps 75%", cuspan, environment={
            "both": mps, "train": {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "75", "CUDA_MPS_CLIENT_PRIORITY": "1"}}))
        ways.append(Way("pair 75%", cuspan, {"serve": ["--share=pair", *high],
                                             "train": ["--share=pair", *low, "--limit", "75%"]}))
    served = run(alone, ["serve"], options.seconds)["serve"]
    tell("alone", served)
    steps = run(alone, ["train"], options.seconds)["train"]

    left = 1 - at(served, 0.5) / 1e3 / PERIOD_S
    rows = [("alone", at(served, 0.5), at(served, 0.99), 1.0, steps, "")]
    for way in ways:
        by_hand = way.environment.get("both")
        if by_hand:
            subprocess.run(["nvidia-cuda-mps-control", "-d"], env={**os.environ, **mps}, check=True)
        try:
            said = run(way, ["serve", "train"], options.seconds)
        finally:
            if by_hand:
                subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, env={**os.environ, **mps}, check=False)
        p99 = at(said["serve"], 0.99)
        tell(way.name, said["serve"])
        rows.append((way.name, at(said["serve"], 0.5), p99, p99 / rows[0][2], said["train"], f"{said['train'] / (steps * left):.3f}"))
    shutil.rmtree(folder, ignore_errors=True)
    lines = ["arrangement,p50 ms,p99 ms,p99 to alone,training steps/s,of what the server leaves"]
    lines += [f"{name},{p50:.3f},{p99:.3f},{ratio:.3f},{rate:.3f},{part}" for name, p50, p99, ratio, rate, part in rows]
    print("\n".join(lines))
    if options.csv:
        with open(options.csv, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in ("serve", "train"):
        {"serve": serve, "train": train}[sys.argv[1]](float(sys.argv[2]))
    else:
        main()
