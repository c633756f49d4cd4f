// Nothing else checks the data in the table of findings, so this does.
#include "client/ctl/doctor/finding.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace mlxcomm::ctl::finding_test {
namespace {

TEST(FindingTest, EachIdIsUniqueAndFollowsItsCode) {
  std::set<std::string_view> ids;
  std::string_view last_code;
  for (const FindingKind& kind : FindingKinds()) {
    EXPECT_TRUE(std::regex_match(std::string(kind.id), std::regex("MC[1-5][0-9]{2}(/[a-z0-9_]+)?")))
        << kind.id;
    EXPECT_TRUE(ids.insert(kind.id).second) << kind.id;
    const bool is_first = kind.id == kind.code();
    EXPECT_EQ(is_first, !kind.title.empty()) << kind.id << ": the first of a code has its title";
    if (is_first) {
      EXPECT_LT(last_code, kind.code()) << "in the order of codes";
      last_code = kind.code();
    }
    EXPECT_EQ(last_code, kind.code()) << kind.id;
    EXPECT_EQ(KindOf(kind.id), &kind);
  }
  EXPECT_EQ(KindOf("MC000"), nullptr);
}

// A fault has an expectation and a remedy; a finding that all is well has neither.
TEST(FindingTest, EachHasTextsAndARemedy) {
  for (const FindingKind& kind : FindingKinds()) {
    const bool well = KindOf(kind.code())->severity == Severity::kOk;
    EXPECT_FALSE(kind.found.empty()) << kind.id;
    EXPECT_EQ(kind.expected.empty(), well) << kind.id;
    if (kind.code() != "MC404") {  // No more is known about what could not be found out.
      EXPECT_EQ(kind.remedy.empty(), well) << kind.id;
    }
  }
}

// Why: the second of two rows for one reason would never be used.
TEST(FindingTest, EachReasonHasAtMostOneRow) {
  std::map<v1::LinkReason::Value, std::string_view> row_of;
  for (const FindingKind& kind : FindingKinds()) {
    for (const v1::LinkReason::Value reason : kind.reasons) {
      if (reason == v1::LinkReason::none) continue;
      EXPECT_TRUE(row_of.emplace(reason, kind.id).second) << v1::LinkReason::Value_Name(reason);
      const bool of_link = IdOf(kind.reasons[0], GeneralFindingKinds()) == kind.id;
      EXPECT_EQ(IdOf(reason, GeneralFindingKinds()), of_link ? kind.id : "");
      EXPECT_EQ(IdOf(reason, FindingKinds()), kind.id);
    }
  }
  EXPECT_EQ(IdOf(v1::LinkReason::none, FindingKinds()), "");
  EXPECT_EQ(IdOf(static_cast<v1::LinkReason::Value>(200), FindingKinds()), "")
      << "a reason of a newer daemon";
}

TEST(FindingTest, CausesExistAndFormNoCycle) {
  std::set<std::string_view> done;
  const std::function<void(const FindingKind&, int)> follow = [&](const FindingKind& kind,
                                                                  int depth) {
    ASSERT_LT(depth, 20) << kind.id << " depends on itself";
    if (done.contains(kind.id)) return;
    for (const std::string_view cause : kind.depends_on) {
      if (cause.empty()) continue;
      ASSERT_NE(KindOf(cause), nullptr) << kind.id << " depends on " << cause;
      follow(*KindOf(cause), depth + 1);
    }
    done.insert(kind.id);
  };
  for (const FindingKind& kind : FindingKinds()) follow(kind, 0);
}

// Why: everything that can take a link down must suppress the findings that depend on it.
TEST(FindingTest, ARouteDependsOnEveryCauseOfALinkBeingDown) {
  // Reasons without a row, and other texts, by what else is known.
  std::set<std::string_view> causes = {"MC502",         "MC205/routed", "MC209/alone",
                                       "MC502/carrier", "MC502/knocks", "MC502/off"};
  for (const FindingKind& kind : GeneralFindingKinds()) {
    if (kind.reasons[0] != v1::LinkReason::none && kind.id != "MC502/way") causes.insert(kind.id);
  }
  const auto& named = KindOf("MC502/way")->depends_on;
  std::set<std::string_view> reported(named.begin(), named.end());
  reported.erase("");
  EXPECT_EQ(reported, causes);
}

TEST(FindingTest, ReplacesNamesByValuesAndKeepsOtherBraces) {
  Findings findings;
  findings.Add("MC317", "a", {{"detail", "it says {peer}"}, {"peer", "{detail}"}});
  const Finding finding = findings.Sorted().at(0);
  EXPECT_EQ(finding.found, "it says {peer}") << "names in a value are not replaced";
  EXPECT_EQ(
      finding.remedy,
      "set rdma { enabled: true } in the configuration of {detail}, and restart its mlxcommd");
}

TEST(FindingTest, LeavesOutAConsequenceOnlyWithItsCause) {
  Findings findings;
  findings.Add("MC502/way", "link a to c");
  EXPECT_EQ(findings.Sorted().size(), 1u);
  findings.Add("MC503", "cluster");
  EXPECT_EQ(findings.Sorted().size(), 2u) << "which is not a cause of it";
  findings.Add("MC208", "link b to c");
  EXPECT_EQ(findings.Sorted().size(), 2u);
  EXPECT_EQ(findings.Sorted().front().code, "MC208") << "the consequence was the only error";
}

}  // namespace
}  // namespace mlxcomm::ctl::finding_test
