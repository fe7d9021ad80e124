"""All outgoing network access: address policy, and bounded HTTP to permitted addresses."""
