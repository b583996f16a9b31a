package job_test

import (
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/job"
)

func TestMembers(t *testing.T) {
	for _, tt := range []struct{ groupID, member, id string }{
		{"o-1", "billing", "o-1:billing"},
		{"shop:1", "a", "shop:1:a"},
		{strings.Repeat("i", 26), strings.Repeat("m", job.MaxMember), strings.Repeat("i", 26) + ":" + strings.Repeat("m", job.MaxMember)},
	} {
		id := job.MemberID(tt.groupID, tt.member)
		if id != tt.id || job.CheckName(id) != nil || job.CheckMember(tt.member) != nil {
			t.Errorf("the id is %q: %v, %v", id, job.CheckName(id), job.CheckMember(tt.member))
		}
		j := job.Job{Key: job.Key{Topic: "t", ID: id}, Spec: job.Spec{BizKey: "b", Group: &job.Membership{Group: "g"}}}
		if j.GroupID() != tt.groupID || j.Member() != tt.member || j.Indexes() != (job.Indexes{BizKey: "b", GroupID: tt.groupID}) {
			t.Errorf("%s: group id %q, member %q, indexes %+v", id, j.GroupID(), j.Member(), j.Indexes())
		}
		if j.Spec.Group = nil; j.GroupID() != "" || j.Member() != "" {
			t.Errorf("%s of no group: group id %q, member %q", id, j.GroupID(), j.Member())
		}
	}
	for _, name := range []string{"", "a:b", "a/b", "..", strings.Repeat("m", job.MaxMember+1)} {
		if job.CheckMember(name) == nil {
			t.Errorf("a member may be named %q", name)
		}
	}
}
