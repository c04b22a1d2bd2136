"""What a cluster does for a run, whatever schedules its tasks: `vesica.ray` and `vesica.spark` are made of it.

A run has a *driver*, which holds the link to the other side and decides what is done next (`drive`). It gives *tasks* to an `engine.Engine`,
which starts each of them on some machine, and once more if that machine is lost. Two kinds of tasks bring rows together: one cuts and seals
pieces, another takes all pieces of a part (`rows`). Files are found and read by `parquet`, as by `vesica.sources.objects`. *Lanes* match units
over links of their own (`lanes`). Tasks ask the driver for what is secret (`keeper`). What is finished stands in a `storage.Storage` that every
machine sees, so a task that is started again begins by reading which files are there.
"""
