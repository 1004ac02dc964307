"""Training steps of the transformer of torch_train.py on two devices: one half of its layers each, as a pipeline of
four parts of the batch; and a copy each, with one half of the batch.
"""

import torch
from torch.nn.parallel import parallel_apply

from report import measure, say_value
from torch_model import LAYERS, VOCABULARY, Transformer

BATCH, LENGTH, PARTS = 8, 256, 4
FIRST, SECOND = torch.device("cuda:0"), torch.device("cuda:1")


def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def synchronize():
    for device in (FIRST, SECOND):
        torch.cuda.synchronize(device)


def train(row, parameters, gradients, update=lambda: None):
    """gradients(tokens): runs the backward passes, returns the loss; update(): runs after a step of the parameters."""
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1), generator=torch.Generator().manual_seed(0))
    tokens = tokens.to(FIRST)
    losses = []

    def step():
        optimizer.zero_grad(set_to_none=True)
        losses.append(gradients(tokens))
        optimizer.step()
        update()

    measure(row, step, synchronize, 20)
    say_value(row, losses[-1])


def pipeline():
    torch.manual_seed(0)
    model = Transformer(LENGTH)
    for module in (model.tokens, model.places, *model.blocks[: LAYERS // 2]):
        module.to(FIRST)
    for module in (*model.blocks[LAYERS // 2 :], model.norm, model.head):
        module.to(SECOND)

    def forward(tokens):
        x = model.tokens(tokens) + model.places(torch.arange(LENGTH, device=FIRST))
        for block in model.blocks[: LAYERS // 2]:
            x = block(x)
        x = x.to(SECOND, non_blocking=True)
        for block in model.blocks[LAYERS // 2 :]:
            x = block(x)
        return model.head(model.norm(x))

    def gradients(tokens):
        targets = tokens[:, 1:].to(SECOND, non_blocking=True)
        parts = [
            loss_of(forward(part), target) / PARTS
            for part, target in zip(tokens[:, :-1].chunk(PARTS), targets.chunk(PARTS))
        ]
        loss = sum(parts)
        loss.backward()
        return loss.item()

    train("pipeline over two devices", model.parameters(), gradients)


def data_parallel():
    torch.manual_seed(0)
    model = Transformer(LENGTH).to(FIRST)
    torch.manual_seed(0)
    copy = Transformer(LENGTH).to(SECOND)
    pairs = list(zip(model.parameters(), copy.parameters()))

    def gradients(tokens):
        inputs = [half.to(device) for half, device in zip(tokens.chunk(2), (FIRST, SECOND))]
        outputs = parallel_apply([model, copy], [half[:, :-1] for half in inputs], devices=[FIRST, SECOND])
        losses = [loss_of(logits, half[:, 1:]) for logits, half in zip(outputs, inputs)]
        loss = (losses[0] + losses[1].to(FIRST)) / 2
        loss.backward()
        for mine, other in pairs:
            mine.grad += other.grad.to(FIRST, non_blocking=True)
            other.grad = None
        return loss.item()

    def update():
        with torch.no_grad():
            for mine, other in pairs:
                other.copy_(mine, non_blocking=True)

    train("data parallel on two devices", model.parameters(), gradients, update)


pipeline()
data_parallel()
