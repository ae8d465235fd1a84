{{- /* The base of every object's name: the release's, with the chart's unless that stands in it already. */ -}}
{{- define "workerapp.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- .Values.fullnameOverride | default $full | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "workerapp.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The chart's own labels win: commonLabels must not break the selector. */ -}}
{{- define "workerapp.labels" -}}
{{- $own := dict
      "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
      "app.kubernetes.io/version" (.Chart.AppVersion | replace "+" "_" | trunc 63 | trimSuffix "-")
      "app.kubernetes.io/managed-by" .Release.Service
      "app.kubernetes.io/part-of" "workerapp" }}
{{- $selector := include "workerapp.selector" . | fromYaml }}
{{- mergeOverwrite (dict) .Values.commonLabels $own $selector | toYaml }}
{{- end }}

{{- define "workerapp.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "workerapp.fullname" .) }}
{{- else }}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{- define "workerapp.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What the operator may do, and nothing else: the same rules for the whole cluster or for each namespace. */ -}}
{{- define "workerapp.rules" -}}
- apiGroups: [workerapp.dev]
  resources: [workerapps]
  verbs: [list, watch]
- apiGroups: [workerapp.dev]
  resources: [workerapps/status]
  verbs: [patch]
# Owner references that block the owner's deletion need it where OwnerReferencesPermissionEnforcement is on.
- apiGroups: [workerapp.dev]
  resources: [workerapps/finalizers]
  verbs: [update]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
# Means nothing where the Prometheus operator's definitions aren't installed.
- apiGroups: [monitoring.coreos.com]
  resources: [podmonitors]
  verbs: [get, list, watch, create, patch, delete]
# The same where KEDA isn't.
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [get, list, watch, create, patch, delete]
# Why a pod doesn't start stands in its status.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
# Their defaults decide how much CPU an app gets that names none.
- apiGroups: [""]
  resources: [limitranges]
  verbs: [list, watch]
# Bursts are seen in the workers' metrics, by whomever they are served.
- apiGroups: [custom.metrics.k8s.io]
  resources:
    - pods/workerapp_requests_in_flight
    - pods/workerapp_requests_per_second
    - pods/workerapp_event_loop_utilization
    - pods/workerapp_busy_workers
    - pods/workerapp_queue_length
  verbs: [get]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{- /* The lease of the operators. Its name can't be asked for where it doesn't exist yet. */ -}}
{{- define "workerapp.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "workerapp.fullname" . }}]
  verbs: [get, update]
{{- end }}
