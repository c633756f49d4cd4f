#include "daemon/jobs/jobs.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/daemon/node/lone_node.h"

namespace mlxcomm::jobs::jobs_test {
namespace {

using node::Heard;
using node::KeptAnswer;

constexpr SessionId kSession = 1;

class JobsTest : public testing::Test, protected node::LoneNode<> {
 protected:
  JobsTest() { node.OnSessionOpened(kSession, {100, "anna"}); }

  // Another rank, for which it waits, never joins.
  void Attach(std::uint64_t call, Heard<v1::AttachReply>& heard) {
    Attach(kSession, call, 2, heard);
    ASSERT_FALSE(heard.failure || heard.dropped);
  }
  void Attach(SessionId session, std::uint64_t call, std::uint32_t size,
              Heard<v1::AttachReply>& heard) {
    v1::AttachRequest request;
    request.set_job("train");
    request.set_size(size);
    node.Call(&Jobs::Attach, session, call, request,
              std::make_unique<KeptAnswer<v1::AttachReply>>(heard));
  }
};

// Why: a dropped answer reports that the daemon is stopping, which is not true. A process whose
// queue holds garbage loses its session, and may have a call in progress.
TEST_F(JobsTest, TellsACallOfASessionThatHasEnded) {
  Heard<v1::AttachReply> heard;
  Attach(1, heard);
  node.OnSessionEnded(kSession, "its queue holds garbage");
  ASSERT_TRUE(heard.failure);
  EXPECT_EQ(heard.failure->code, FailureCode::kCancelled);
  EXPECT_EQ(heard.failure->message, "the session that asked has ended: connect again");
}

// Why: a process may attach again as soon as it has given up; the end of its first call must not
// withdraw the second.
TEST_F(JobsTest, CancelsTheCallThatIsNamedAndNoOther) {
  Heard<v1::AttachReply> first;
  Attach(1, first);
  node.Call(&Jobs::CancelAttach, kSession, std::uint64_t{1});
  ASSERT_TRUE(first.failure);
  EXPECT_EQ(first.failure->code, FailureCode::kCancelled);
  Heard<v1::AttachReply> second;
  Attach(2, second);
  node.Call(&Jobs::CancelAttach, kSession, std::uint64_t{1});
  EXPECT_FALSE(second.failure);
  node.Call(&Jobs::CancelAttach, kSession, std::uint64_t{2});
  EXPECT_TRUE(second.failure);
}

// Why: a process that has left its job but is still running must not keep its rank from another.
TEST_F(JobsTest, ARankIsFreeOnceItsProcessIsInNoneOfTheJobsGroups) {
  constexpr SessionId kOther = 2;
  node.OnSessionOpened(kOther, {101, "anna"});
  Heard<v1::AttachReply> first;
  Attach(kSession, 1, 1, first);
  ASSERT_TRUE(first.reply);
  Heard<v1::AttachReply> refused;
  Attach(kOther, 1, 1, refused);
  ASSERT_TRUE(refused.failure);

  v1::ReleaseRequest release;
  release.set_group(first.reply->group());
  Heard<v1::ReleaseReply> released;
  KeptAnswer<v1::ReleaseReply> answer(released);
  node.Call(&Jobs::Release, kSession, release, answer);
  ASSERT_TRUE(released.reply);
  Heard<v1::AttachReply> second;
  Attach(kOther, 2, 1, second);
  EXPECT_TRUE(second.reply);
}

}  // namespace
}  // namespace mlxcomm::jobs::jobs_test
