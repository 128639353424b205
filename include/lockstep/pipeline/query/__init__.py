"""SQL analysis of a pipeline's query.sql: what it reads, what it may hold, how it is evaluated.

Pure: text and catalog in, text and values out. Nothing here runs a query or imports Spark.
"""
