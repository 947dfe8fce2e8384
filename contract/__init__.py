"""What the product promises: doors, types, refusals, limits, and every surface generated from them."""
