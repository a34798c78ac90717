"""What administrators' commands read and change on a bus. None of it needs a running engine."""
