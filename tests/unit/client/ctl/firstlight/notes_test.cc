#include "client/ctl/firstlight/notes.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "client/ctl/firstlight/assumptions.h"

namespace mlxcomm::ctl {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

TEST(AssumptionsTest, HaveIdsOfTheirOwnAndTrialsNameThem) {
  std::set<std::string_view> ids;
  for (const Assumption& one : Assumptions()) EXPECT_TRUE(ids.insert(one.id).second) << one.id;
  for (const TrialAssumption& one : TrialAssumptions()) {
    ASSERT_NE(FindAssumption(one.id), nullptr) << one.id;
    EXPECT_EQ(FindAssumption(one.id)->step, "rdma");
  }
}

// Why: an assumption may hold for one of two devices and not for the other; the worse must be
// known.
TEST(NotesTest, KeepsARefusalAmongConfirmations) {
  Notes notes;
  notes.Confirm("rdma-uc", "a: worked");
  notes.Refute("rdma-uc", "b: refused");
  notes.Confirm("rdma-uc", "c: worked");
  EXPECT_EQ(notes.Of("rdma-uc").verdict, Verdict::kRefuted);
  EXPECT_EQ(notes.Of("rdma-uc").seen, "b: refused");
  notes.LeaveOut("bell", "why");
  notes.Confirm("bell", "heard");
  EXPECT_EQ(notes.Of("bell").seen, "heard");
}

TEST(NotesTest, SaysWhyAStepTriedNothing) {
  Notes notes;
  v1::FirstLightStep& step = *notes.document.add_steps();
  step.set_name("pull");
  step.set_why("nobody to pull a cable");
  EXPECT_EQ(notes.Of("pull-seen").verdict, Verdict::kNotTried);
  EXPECT_EQ(notes.Of("pull-seen").seen, "nobody to pull a cable");
}

TEST(NotesTest, BoundsWhatItKeeps) {
  Notes notes;
  for (std::uint64_t i = 0; i < Notes::kEventsMax + 3; ++i) {
    notes.Happened(i, "daemon", "rail_up", "a - b", "");
  }
  notes.Confirm("bell", std::string(1 << 20, 'x'));
  const json document = json::parse(Document(notes, Pseudonyms(true), {}));
  EXPECT_EQ(document["events"].size(), Notes::kEventsMax);
  EXPECT_EQ(document["events_left_out"], 3);
  EXPECT_LE(notes.Of("bell").seen.size(), Notes::kTextBytesMax);
}

TEST(DocumentTest, HasEachAssumptionAndEventsInOrderOfTime) {
  Notes notes;
  notes.Happened(20, "daemon", "rail_down", "en2 - en3", "rail en2 - en3 is down");
  notes.Happened(10, "person", "pull", "en2", "");
  const json document = json::parse(Document(notes, Pseudonyms(true), {}));
  EXPECT_EQ(document["format"], "mlxcomm-firstlight");
  EXPECT_EQ(document["version"], 1);
  EXPECT_EQ(document["assumptions"].size(), Assumptions().size());
  EXPECT_EQ(document["events"][0]["kind"], "pull");
  EXPECT_EQ(document["events"][1]["kind"], "rail_down");
}

// Why: the file will be sent to strangers.
TEST(DocumentTest, HasNoKeyAndNoName) {
  const std::string key(32, '\x5a');
  std::string hex;
  for (int i = 0; i < 32; ++i) hex += "5a";
  Notes notes;
  notes.Confirm("neighbour", "found studio-max by " + hex);
  notes.document.add_findings("MC203 link to studio-max: " + hex);
  (*notes.document.mutable_system())["model"] = "studio-max";
  v1::FirstLightLimit& limit = *notes.document.mutable_rdma()->add_limits();
  limit.set_name("library");
  limit.set_value("/place/anna/x.dylib");
  notes.document.mutable_rdma()->add_devices()->add_trials()->set_text("on studio-max");
  notes.Happened(1, "daemon", "rail_up", "", "rail to studio-max");
  Pseudonyms names(true);
  names.Know("studio-max", "mac");
  names.Know("daemon", "user");
  const std::string text = Document(notes, names, {key});
  EXPECT_THAT(text, Not(HasSubstr("studio")));
  EXPECT_THAT(text, Not(HasSubstr(hex)));
  EXPECT_THAT(text, Not(HasSubstr("anna")));
  EXPECT_THAT(text, HasSubstr("found mac-1 by"));
  EXPECT_EQ(json::parse(text)["events"][0]["source"], "daemon") << "one of a few words";
}

TEST(DocumentTest, IsJsonWhateverOthersSay) {
  Notes notes;
  notes.Refute("neighbour", "\xff\xfe \"quoted\" \n\x1b[31m");
  EXPECT_FALSE(json::parse(Document(notes, Pseudonyms(true), {}), nullptr, false).is_discarded());
  EXPECT_THAT(Summary(notes), Not(HasSubstr("\x1b")));
}

TEST(RailNamedInTest, FindsTheRailOfAnEvent) {
  EXPECT_EQ(RailNamedIn("rail en2 - en3 is down: no carrier"), "en2 - en3");
  EXPECT_EQ(RailNamedIn("rail rdma en2 - en3 is up"), "rdma en2 - en3");
  EXPECT_EQ(RailNamedIn("the way through other nodes is up"), "");
  EXPECT_EQ(RailNamedIn("no rail is left: x"), "");
}

}  // namespace
}  // namespace mlxcomm::ctl
