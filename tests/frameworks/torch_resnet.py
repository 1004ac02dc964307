"""Training steps of ResNet-50: batch 64, channels last, each image from pinned memory."""

import torch
import torchvision

from report import measure, say_value

torch.manual_seed(0)
model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images = [
    torch.randn(64, 3, 224, 224).contiguous(memory_format=torch.channels_last).pin_memory()
    for _ in range(2)
]
labels = torch.randint(1000, (64,)).pin_memory()
count = 0
loss = None


def step():
    global count, loss
    batch = images[count % 2].cuda(non_blocking=True)
    target = labels.cuda(non_blocking=True)
    count += 1
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(batch), target)
    loss.backward()
    optimizer.step()


measure("ResNet-50 step", step, torch.cuda.synchronize, 10)
say_value("ResNet-50 step", loss)
