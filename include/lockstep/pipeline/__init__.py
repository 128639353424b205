"""What a pipeline is: the catalog of its source, its manifest, its types and its query.

Read from the project's folder. Nothing here asks a database or starts Spark.
"""
