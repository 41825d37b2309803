"""From events to what a person or a script reads."""
