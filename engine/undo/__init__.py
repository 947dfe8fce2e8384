"""Taking commits back: what they touched (`plan`), what stands in the way, and the one commit that restores it."""
