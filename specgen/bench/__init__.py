"""What a pair gains: estimated from costs, measured on this machine, and compared with others."""
