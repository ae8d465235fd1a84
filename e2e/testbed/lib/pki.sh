# shellcheck shell=bash
# One authority per cluster, and a certificate or key for each of its members. Elliptic curves: made in milliseconds.

pki_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }

pki_authority() {
  mkdir -p "$STATE/pki"
  pki_key "$STATE/pki/ca.key"
  openssl req -x509 -new -key "$STATE/pki/ca.key" -subj "/CN=testbed-$NAME" -days 3650 -out "$STATE/pki/ca.crt"
  # Signs the service accounts' tokens.
  pki_key "$STATE/pki/service-accounts.key"
  openssl pkey -in "$STATE/pki/service-accounts.key" -pubout -out "$STATE/pki/service-accounts.pub"
}

# pki_certificate FILE SUBJECT [ALTERNATIVE-NAMES]
pki_certificate() {
  local file=$STATE/pki/$1 names=${3:-}
  pki_key "$file.key"
  # `openssl x509` reports its success on stderr; it is shown only when it is none.
  if ! openssl req -new -key "$file.key" -subj "$2" |
    openssl x509 -req -CA "$STATE/pki/ca.crt" -CAkey "$STATE/pki/ca.key" -CAcreateserial -days 3650 -out "$file.crt" \
      -extfile <(printf 'extendedKeyUsage=clientAuth,serverAuth\n%s\n' "${names:+subjectAltName=$names}") 2>"$STATE/log/pki.log"; then
    excerpt "$STATE/log/pki.log"
    die "no certificate for $2" "see the lines above"
  fi
}

# pki_kubeconfig USER: a kubeconfig for the certificate of that name, without references to other files, so that it can be copied
pki_kubeconfig() {
  local pki=$STATE/pki
  cat >"$STATE/$1.kubeconfig" <<EOF
apiVersion: v1
kind: Config
clusters:
- name: testbed-$NAME
  cluster:
    server: https://$CONTROL_PLANE:6443
    certificate-authority-data: $(base64 -w0 <"$pki/ca.crt")
users:
- name: $1
  user:
    client-certificate-data: $(base64 -w0 <"$pki/$1.crt")
    client-key-data: $(base64 -w0 <"$pki/$1.key")
contexts:
- name: testbed-$NAME
  context: {cluster: testbed-$NAME, user: $1}
current-context: testbed-$NAME
EOF
}

# pki_member USER SUBJECT [ALTERNATIVE-NAMES]: certificate and kubeconfig
pki_member() {
  pki_certificate "$@"
  pki_kubeconfig "$1"
}
