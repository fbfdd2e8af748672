"""One module per experiment; `nearcast.lab.registry` lists them."""
