"""Virtual time, faults, and the history by which every run, virtual or live, is judged."""
