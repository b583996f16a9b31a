package job

import (
	"errors"
	"strings"
)

// Membership says for which member of a group a job was registered. The job's id is
// MemberID of the registration's id, which is the group id of its jobs.
type Membership struct {
	Group string // its name
	// FilterLabel of the registration, which was for members with this label only.
	FilterLabel string
	// Position of the member among the Size members of the registration.
	Position, Size int
	// Headers is how many headers of the job the registration set. The others are the
	// member's, or defaults of the topic.
	Headers int
}

// memberSeparator is between a group id and the name of a member, which does not
// contain it.
const memberSeparator = ":"

var errMemberSeparator = errors.New("must not contain a colon, which separates it from the id in the ids of jobs")

// MemberID is the id of a member's job.
func MemberID(groupID, member string) string { return groupID + memberSeparator + member }

// CheckMember checks the name of a member.
func CheckMember(name string) error {
	switch {
	case len(name) > MaxMember:
		return errNameTooLong(MaxMember)
	case strings.Contains(name, memberSeparator):
		return errMemberSeparator
	}
	return CheckName(name)
}

// CheckFilterLabel checks the label by which registrations select members.
func CheckFilterLabel(label string) error {
	return CheckText(label, 1, MaxLabelValue)
}

// GroupIDOf is the group id in the id of a member's job.
func GroupIDOf(id string) string { return id[:max(strings.LastIndex(id, memberSeparator), 0)] }

// GroupID is the id of the registration that made the job for a member of a group;
// empty for other jobs.
func (j *Job) GroupID() string {
	if j.Spec.Group == nil {
		return ""
	}
	return GroupIDOf(j.ID)
}

// Member is the name of the member whose job it is, or empty.
func (j *Job) Member() string {
	if j.Spec.Group == nil {
		return ""
	}
	return j.ID[strings.LastIndex(j.ID, memberSeparator)+1:]
}

// Indexes are the names by which a store finds a job, besides its key. Empty: none. GroupID is a group
// id or an IDIndex.
type Indexes struct{ BizKey, GroupID string }

// Indexes are those of the job.
func (j *Job) Indexes() Indexes {
	group := j.GroupID()
	if d := j.Spec.Dialect; group == "" && d != nil && d.Indexed {
		group = IDIndex(j.ID)
	}
	return Indexes{BizKey: j.Spec.BizKey, GroupID: group}
}

// IDIndex is the index of jobs that dialects find by their id in any topic. No group id has this form.
func IDIndex(id string) string { return "/" + id }
