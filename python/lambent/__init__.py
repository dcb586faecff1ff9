"""Lambent from Python: `lambent.client` speaks to a worker, `lambent.objects` is for handlers, `lambent.kernels` builds
kernel functions, `lambent.workflow` workflows, `lambent.pipeline` functions that are cut into stages. Standard library only."""
