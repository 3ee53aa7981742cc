"""What a published scheme does: its sizes in depth and layer index, its orders, its class."""
