{{- define "quartet.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "quartet.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "quartet.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "quartet.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "quartet.selectorLabels" -}}
app.kubernetes.io/name: {{ include "quartet.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "quartet.labels" -}}
{{ include "quartet.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "quartet.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "quartet.fullname" .) .Values.serviceAccount.name }}{{ else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "quartet.usersSecret" -}}
{{- if .Values.auth.usersExistingSecret }}{{ .Values.auth.usersExistingSecret }}{{ else if .Values.auth.aclUsers }}{{ include "quartet.fullname" . }}-users{{ end }}
{{- end }}

{{- /* "true" for nodes of a cluster, and nothing for a server alone; what a cluster cannot be started with is refused here. */}}
{{- define "quartet.isCluster" -}}
{{- if .Values.cluster.etcd.endpoints -}}
{{- if include "quartet.usersSecret" . }}{{ fail "auth.aclUsers and auth.usersExistingSecret are for a server alone: users of a cluster are in its data" }}{{ end -}}
{{- if .Values.dataStorage.persistentVolumeClaimName }}{{ fail "dataStorage.persistentVolumeClaimName is for a server alone: each node has its own claim" }}{{ end -}}
{{- if not (or .Values.cluster.etcd.existingSecret .Values.cluster.etcd.allowClearText) }}{{ fail "cluster.etcd.existingSecret, or cluster.etcd.allowClearText" }}{{ end -}}
true
{{- else if gt (int .Values.replicas) 1 -}}
{{- fail "more than one replica is a cluster, which needs cluster.etcd.endpoints" }}
{{- end -}}
{{- end }}

{{- define "quartet.nodes" -}}
{{ include "quartet.fullname" . | trunc 57 | trimSuffix "-" }}-nodes
{{- end }}
