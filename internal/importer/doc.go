// Package importer reads the jobs that wait in other systems, for duehook import. It only reads there,
// page by page. The ids of jobs follow from those of the original, and each registration is made
// with the policy "once", so that an import can be repeated.
package importer
