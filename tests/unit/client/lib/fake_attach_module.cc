// A stand-in for libmlxcomm_attach: joining without a daemon. The job's name decides the outcome:
// "refused" is refused, every other one is group 7 with a deadline of a minute. The test decides
// the rest (fake_attach.h).
#include <unistd.h>

#include <cstdio>
#include <string>

#include "client/lib/attach_table.h"
#include "client/lib/mlxcomm.h"
#include "tests/unit/client/lib/fake_attach.h"

struct mlxcomm_attachment {
  int connection;
};

using mlxcomm::client::FakeAttach;

// Names of symbols, as in C. NOLINTBEGIN(readability-identifier-naming)
extern "C" __attribute__((visibility("default"))) FakeAttach* fake_attach() {
  static FakeAttach fake;
  return &fake;
}

namespace {

mlxcomm_attachment* Open(int connection, const std::uint8_t*, std::size_t) {
  return new mlxcomm_attachment{connection};
}

void NotifyMembers(mlxcomm_group_listener listener, std::size_t count) {
  for (std::size_t rank = 0; rank < count; ++rank) {
    listener.member(listener.context, ("node-" + std::to_string(rank)).c_str(), 100 + rank);
  }
}

int Give(const FakeAttach::Answer& answer, mlxcomm_group_listener listener, mlxcomm_error* error) {
  if (answer.code != MLXCOMM_OK) {
    error->rank = answer.rank;
    std::snprintf(error->message, sizeof error->message, "%s", answer.message.c_str());
    return answer.code;
  }
  const mlxcomm_group_told reported{answer.group, answer.own_rank, 0, answer.name.c_str(),
                                    answer.members};
  listener.group(listener.context, &reported);
  NotifyMembers(listener, answer.members);
  return MLXCOMM_OK;
}

int Attach(mlxcomm_attachment*, const char* job, std::uint32_t rank, std::uint32_t size,
           std::uint64_t, const char*, const char*, mlxcomm_interrupt,
           mlxcomm_group_listener listener, mlxcomm_error* error) {
  if (fake_attach()->attach) return Give(fake_attach()->attach(), listener, error);
  if (std::string(job) == "refused") {
    error->rank = 1;
    std::snprintf(error->message, sizeof error->message, "rank 1 is taken");
    return MLXCOMM_ALREADY_EXISTS;
  }
  const mlxcomm_group_told reported{7, rank, 60'000'000'000, job, size};
  listener.group(listener.context, &reported);
  NotifyMembers(listener, size);
  return MLXCOMM_OK;
}

int Split(mlxcomm_attachment*, std::uint64_t parent, std::uint64_t number,
          const std::uint32_t* ranks, std::size_t rank_count, const char* name,
          std::uint64_t timeout_ns, mlxcomm_interrupt, mlxcomm_group_listener listener,
          mlxcomm_error* error) {
  const FakeAttach::SplitCall call{parent, number, {ranks, ranks + rank_count}, name, timeout_ns};
  return Give(fake_attach()->split(call), listener, error);
}

int Shrink(mlxcomm_attachment*, std::uint64_t group, std::uint64_t timeout_ns, mlxcomm_interrupt,
           mlxcomm_group_listener listener, mlxcomm_error* error) {
  return Give(fake_attach()->shrink(group, timeout_ns), listener, error);
}

int Cancel(mlxcomm_attachment*, std::uint64_t group, std::uint64_t ticket, std::uint64_t) {
  fake_attach()->Note("cancel " + std::to_string(group));
  if (!fake_attach()->cancel) return 0;
  fake_attach()->cancel({group, ticket});
  return 1;
}

int Awaited(mlxcomm_attachment*, std::uint64_t, std::uint64_t, std::uint64_t patience_ns,
            mlxcomm_interrupt, char* text, std::size_t, int* ended) {
  fake_attach()->Note("awaited");
  if (fake_attach()->awaited) fake_attach()->awaited(patience_ns);
  *text = '\0';
  *ended = fake_attach()->is_ended ? 1 : 0;
  return fake_attach()->is_answering ? 1 : 0;
}

void Release(mlxcomm_attachment*, std::uint64_t group) {
  fake_attach()->Note("release " + std::to_string(group));
}

void Detach(mlxcomm_attachment*, const char* why) {
  fake_attach()->Note(why == nullptr ? "detach" : std::string("detach for ") + why);
}

void Close(mlxcomm_attachment* attachment) {
  ::close(attachment->connection);
  delete attachment;
}

}  // namespace

extern "C" __attribute__((visibility("default")))
const mlxcomm_attach_table mlxcomm_attach_table_v5;
const mlxcomm_attach_table mlxcomm_attach_table_v5 = {Open,    Attach,  Split,  Shrink, Cancel,
                                                      Awaited, Release, Detach, Close};
// NOLINTEND(readability-identifier-naming)
