# farrier without privileges, on a read-only file system. docs/operate/containers.md explains it; deploy/compose.yaml runs it.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY farrier farrier
COPY agent agent
RUN python -m venv /opt/farrier && /opt/farrier/bin/pip install --no-cache-dir .

FROM python:3.13-slim
COPY --from=build /opt/farrier /opt/farrier
# An account that no image of another program has. Only this directory is its own, for a volume.
RUN install -d -o 64646 -g 64646 /var/lib/farrier
USER 64646:64646
WORKDIR /var/lib/farrier
# Loopback would be the container's own.
ENV PATH=/opt/farrier/bin:$PATH FARRIER_METRICS_HOST=0.0.0.0 FARRIER_HTTP_HOST=0.0.0.0 PYTHONDONTWRITEBYTECODE=1
EXPOSE 9464 9465 9466
# The process, not the database: to start the container again helps only against a process that hangs.
HEALTHCHECK --interval=30s --timeout=5s --start-period=90s --retries=3 \
    CMD ["farrier", "health"]
ENTRYPOINT ["farrier"]
CMD ["run"]
