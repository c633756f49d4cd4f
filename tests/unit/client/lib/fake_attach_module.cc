// A stand-in for libmlxcomm_attach: joining without a daemon. The job's name decides the outcome:
// "refused" is refused, every other one is group 7 with a deadline of a minute. The test decides
// the rest (fake_attach.h).
#include <unistd.h>

#include <span>
#include <string>

#include "client/lib/attach_table.h"
#include "client/lib/mlxcomm.h"
#include "tests/unit/client/lib/fake_attach.h"

struct mlxcomm_attachment {
  int connection;
};

using mlxcomm::Failure;
using mlxcomm::client::FakeAttach;
using mlxcomm::client::GroupFacts;

// Names of symbols, as in C. NOLINTBEGIN(readability-identifier-naming)
extern "C" __attribute__((visibility("default"))) FakeAttach* fake_attach() {
  static FakeAttach fake;
  return &fake;
}

namespace {

mlxcomm_attachment* Open(int connection, const std::uint8_t*, std::size_t) {
  return new mlxcomm_attachment{connection};
}

void AddMembers(std::size_t count, GroupFacts& facts) {
  for (std::size_t rank = 0; rank < count; ++rank) {
    facts.members.push_back({"node-" + std::to_string(rank), 100 + rank});
  }
}

Failure Give(const FakeAttach::Answer& answer, GroupFacts& facts) {
  if (answer.code != MLXCOMM_OK) {
    return {static_cast<mlxcomm::FailureCode>(answer.code), answer.rank, answer.message};
  }
  facts.id = answer.group;
  facts.rank = answer.own_rank;
  facts.name = answer.name;
  AddMembers(answer.members, facts);
  return {};
}

Failure Attach(mlxcomm_attachment&, const mlxcomm::client::JoinCall& call, mlxcomm_interrupt,
               GroupFacts& facts) {
  if (fake_attach()->attach) return Give(fake_attach()->attach(), facts);
  if (std::string(call.job) == "refused") {
    return {mlxcomm::FailureCode::kAlreadyExists, 1, "rank 1 is taken"};
  }
  facts.id = 7;
  facts.rank = call.rank;
  facts.timeout_default_ns = 60'000'000'000;
  facts.name = call.job;
  AddMembers(call.size, facts);
  return {};
}

Failure Split(mlxcomm_attachment&, const mlxcomm::client::SplitCall& call, mlxcomm_interrupt,
              GroupFacts& facts) {
  return Give(fake_attach()->split({call.parent,
                                    call.number,
                                    {call.ranks.begin(), call.ranks.end()},
                                    call.name,
                                    call.timeout_ns}),
              facts);
}

Failure Shrink(mlxcomm_attachment&, std::uint64_t group, std::uint64_t timeout_ns,
               mlxcomm_interrupt, GroupFacts& facts) {
  return Give(fake_attach()->shrink(group, timeout_ns), facts);
}

bool Cancel(mlxcomm_attachment&, std::uint64_t group, std::uint64_t ticket, std::uint64_t) {
  fake_attach()->Note("cancel " + std::to_string(group));
  if (!fake_attach()->cancel) return false;
  fake_attach()->cancel({group, ticket});
  return true;
}

bool Awaited(mlxcomm_attachment&, std::uint64_t, std::uint64_t, std::uint64_t patience_ns,
             mlxcomm_interrupt, std::span<char> text, int& ended) {
  fake_attach()->Note("awaited");
  if (fake_attach()->awaited) fake_attach()->awaited(patience_ns);
  text[0] = '\0';
  ended = fake_attach()->is_ended ? 1 : 0;
  return fake_attach()->is_answering;
}

void Release(mlxcomm_attachment&, std::uint64_t group) {
  fake_attach()->Note("release " + std::to_string(group));
}

void Detach(mlxcomm_attachment&, const char* why) {
  fake_attach()->Note(why == nullptr ? "detach" : std::string("detach for ") + why);
}

void Close(mlxcomm_attachment* attachment) {
  ::close(attachment->connection);
  delete attachment;
}

}  // namespace

extern "C" __attribute__((visibility("default")))
const mlxcomm_attach_table mlxcomm_attach_table_v6;
const mlxcomm_attach_table mlxcomm_attach_table_v6 = {Open,    Attach,  Split,  Shrink, Cancel,
                                                      Awaited, Release, Detach, Close};
// NOLINTEND(readability-identifier-naming)
