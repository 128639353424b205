"""The pages that Lockstep adds to Airflow's web server. They read; they never change anything."""
