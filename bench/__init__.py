"""The benchmark book: published tables as data, a runner, kept results, and the pages that are drawn from both.

    python3 -m bench list                       # the tables, and how many of their cells have a kept result
    python3 -m bench run whitepaper --scale 0.01 --only '*RR22*'
    python3 -m bench draw                       # writes the pages and plots; --check only compares

Needs Python 3.11 or later and its standard library; to run cells, also `cargo build --release -p vesica-cli`.
"""
