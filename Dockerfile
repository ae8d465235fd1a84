# One image for everything: the operator, the supervisor that it puts into pods, and the command line.
#
#   make image                                                    # builds the binaries, then this
#   buildah bud --isolation chroot -t localhost/workerapp:dev .   # this alone, once target/image/ is filled
#
# The three programs are static, so nothing else is in the image, and building it fetches nothing.
FROM scratch

ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="workerapp" \
      org.opencontainers.image.description="Runs web apps with several workers in each pod: operator, supervisor and command line" \
      org.opencontainers.image.source="https://github.com/workerapp/workerapp" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

COPY --chmod=0755 target/image/workerapp-operator \
                  target/image/workerapp-supervisor \
                  target/image/kubectl-workerapp \
                  /usr/local/bin/

# A number, since there is no /etc/passwd; any that isn't root.
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/workerapp-operator"]
CMD ["run"]
