"""Running a folder of inputs: jobs, workers, clusters, the table of results."""
