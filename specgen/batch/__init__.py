"""Many prompts in one run: what they are, how they share the models, and what is kept of them."""
