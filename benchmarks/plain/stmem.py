"""ST-MEM read plainly: one operation after the other, attention with its matrix of scores, nothing
kept between calls.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def features(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """x (batch, 12, time) -> (batch, 768)."""
    batch, leads, time = x.shape
    n = time // 75
    patches = x.reshape(batch, leads, n, 75)
    patches = F.layer_norm(
        patches, (75,), state["to_patch_embedding.1.weight"], state["to_patch_embedding.1.bias"]
    )
    tokens = F.linear(
        patches, state["to_patch_embedding.2.weight"], state["to_patch_embedding.2.bias"]
    )
    tokens = F.layer_norm(
        tokens, (768,), state["to_patch_embedding.3.weight"], state["to_patch_embedding.3.bias"]
    )
    tokens = tokens + state["pos_embedding"][:, 1 : n + 1].unsqueeze(1)
    left = (state["sep_embedding"] + state["pos_embedding"][0, 0]).expand(batch, leads, 1, 768)
    right = (state["sep_embedding"] + state["pos_embedding"][0, -1]).expand(batch, leads, 1, 768)
    tokens = torch.cat([left, tokens, right], dim=2)
    lead = torch.stack([state[f"lead_embeddings.{i}"] for i in range(leads)])
    tokens = (tokens + lead[None, :, None]).reshape(batch, leads * (n + 2), 768)
    for i in range(12):
        tokens = tokens + attention(state, f"block{i}.attn", tokens)
        tokens = tokens + mlp(state, f"block{i}.ff", tokens)
    inner = tokens.reshape(batch, leads, n + 2, 768)[:, :, 1:-1].mean(dim=(1, 2))
    return F.layer_norm(inner, (768,), state["norm.weight"], state["norm.bias"])


def attention(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """12 heads of 64."""
    batch, tokens, _ = x.shape
    x = F.layer_norm(x, (768,), state[f"{name}.norm.weight"], state[f"{name}.norm.bias"])
    q, k, v = F.linear(x, state[f"{name}.fn.to_qkv.weight"], state[f"{name}.fn.to_qkv.bias"]).chunk(
        3, dim=-1
    )
    q, k, v = (part.reshape(batch, tokens, 12, 64).transpose(1, 2) for part in (q, k, v))
    weights = torch.softmax(q @ k.transpose(-1, -2) * 64**-0.5, dim=-1)
    mixed = (weights @ v).transpose(1, 2).reshape(batch, tokens, 768)
    return F.linear(mixed, state[f"{name}.fn.to_out.0.weight"], state[f"{name}.fn.to_out.0.bias"])


def mlp(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """768 -> 3072 -> 768."""
    x = F.layer_norm(x, (768,), state[f"{name}.norm.weight"], state[f"{name}.norm.bias"])
    x = F.gelu(F.linear(x, state[f"{name}.fn.net.0.weight"], state[f"{name}.fn.net.0.bias"]))
    return F.linear(x, state[f"{name}.fn.net.3.weight"], state[f"{name}.fn.net.3.bias"])
