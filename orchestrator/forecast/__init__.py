"""What a sweep will take, told before it runs: time, energy, memory, disk and money, each with an interval."""
