#include "client/ctl/doctor/render_doctor.h"

#include <gmock/gmock.h>

#include <string>

namespace mlxcomm::ctl::render_doctor_test {
namespace {

Findings Some() {
  Findings findings;
  findings.Add("MC106", "mlxcommd", {{"node", "a"}, {"cluster", "c"}, {"version", "1"}});
  findings.Add("MC305", "cable a en2 - en3 b", {{"state", "down"}});
  findings.Add("MC103/open", "key file /k 1", {{"trouble", "mode 644\nof all"}},
               {{{"chmod", "600", "/k 1"}}, true});
  return findings;
}

TEST(RenderDoctorTest, SortsBySeverityAndLeavesOutPassedChecks) {
  EXPECT_EQ(
      RenderFindings(Some().Sorted(), false, false),
      "error    MC103  key file /k 1: the key file cannot be used, or others can read it\n"
      "  found    mode 644\n"
      "           of all\n"
      "  expected the cluster's key, readable only by the daemon's user\n"
      "  remedy   let only its owner read it; others may already have the key: mlxcommctl "
      "cluster key rotate\n"
      "  command  chmod 600 '/k 1'\n"
      "warning  MC305  cable a en2 - en3 b: a cable of a link is down\n"
      "  found    down\n"
      "  expected up\n"
      "  remedy   check that it is plugged in at both ends. The link works without it, but slower\n"
      "1 error, 1 warning, 0 notes\n");
  EXPECT_THAT(RenderFindings(Some().Sorted(), true, true),
              testing::HasSubstr("\x1b[32mok     \x1b[0m  MC106"));
  EXPECT_EQ(RenderFindings({}, false, false), "nothing is wrong\n");
}

TEST(RenderDoctorTest, JsonHasEveryField) {
  const std::string json = FindingsAsJson(Some().Sorted());
  for (const char* part : {"\"code\": \"MC103\"", "\"command\": \"chmod 600 '/k 1'\"",
                           "\"safe\": true", "\"errors\": 1", "\"warnings\": 1", "\"notes\": 0"}) {
    EXPECT_THAT(json, testing::HasSubstr(part));
  }
}

TEST(RenderDoctorTest, QuotesWordsForAShell) {
  EXPECT_EQ(CommandLine({"rm", "a b", "it's", "$x", "", "--a=b"}),
            "rm 'a b' 'it'\\''s' '$x' '' --a=b");
}

// Why: scripts rely on codes.
TEST(RenderDoctorTest, ListsEachCodeOnce) {
  const std::string codes = RenderCodes();
  for (const FindingKind& kind : FindingKinds()) {
    const std::string row = "\n| " + std::string(kind.code()) + " |";
    const std::size_t at = codes.find(row);
    ASSERT_NE(at, std::string::npos) << kind.id;
    EXPECT_EQ(codes.find(row, at + 1), std::string::npos) << kind.id;
  }
}

}  // namespace
}  // namespace mlxcomm::ctl::render_doctor_test
