"""What a person and a program see of a deployment over HTTP: API, dashboard, metrics. Needs `nearcast[web]`."""
