"""From weights to logits."""
