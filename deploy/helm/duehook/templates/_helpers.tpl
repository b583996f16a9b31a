{{- define "duehook.name" -}}
{{- if contains "duehook" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-duehook" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "duehook.selector" -}}
app.kubernetes.io/name: duehook
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "duehook.labels" -}}
{{ include "duehook.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "duehook.secret" -}}
valueFrom: { secretKeyRef: { name: {{ .secret }}, key: {{ .key }} } }
{{- end }}
