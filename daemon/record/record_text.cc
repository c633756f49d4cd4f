#include "daemon/record/record_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/collective/inquest.h"
#include "daemon/collective/signature.h"
#include "proto/types/failure.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::record {
namespace {

std::string Time(std::uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1'000'000) return absl::StrFormat("%.1f us", value / 1e3);
  if (ns < 1'000'000'000) return absl::StrFormat("%.1f ms", value / 1e6);
  return absl::StrFormat("%.2f s", value / 1e9);
}

std::uint64_t Since(std::uint64_t time_ns, std::uint64_t begin_ns) {
  return time_ns > begin_ns ? time_ns - begin_ns : 0;
}

void AppendParties(const char* what, const std::vector<OperationLife::Party>& parties,
                   std::uint64_t begin_ns, std::string& text) {
  constexpr std::size_t kShown = 8;
  for (std::size_t i = 0; i < parties.size() && i < kShown; ++i) {
    absl::StrAppend(&text, i == 0 ? what : ",", " rank ", parties[i].rank, " +",
                    Time(Since(parties[i].time_ns, begin_ns)));
  }
  if (parties.size() > kShown) absl::StrAppend(&text, ", ", parties.size() - kShown, " more");
}

void AppendMoment(const char* what, std::uint64_t time_ns, std::uint64_t begin_ns,
                  std::string& text) {
  if (time_ns != 0) absl::StrAppend(&text, ", ", what, " +", Time(Since(time_ns, begin_ns)));
}

void AppendLife(const OperationLife& life, std::span<const record::TrackCopy> rails,
                std::uint64_t now_ns, std::string& text) {
  const std::uint64_t begin_ns = life.began_ns();
  const std::string call = DescribeCall(life);
  absl::StrAppend(&text, collective::DescribeKey(life.name), call.empty() ? "" : ", ", call,
                  ", began ", Time(Since(now_ns, begin_ns)), " ago: ");
  AppendParties("called by", life.submitted, begin_ns, text);
  if (life.submitted.empty()) {
    // An operation that has begun was called, but the ring may have dropped the event.
    const bool begun = life.matched_ns != 0 || life.first_byte_ns != 0 || life.last_byte_ns != 0;
    text += begun ? "called before the record begins" : "called by no rank here";
  }
  AppendParties(", heard from the node of", life.heard, begin_ns, text);
  AppendMoment("matched", life.matched_ns, begin_ns, text);
  AppendMoment("first byte", life.first_byte_ns, begin_ns, text);
  AppendMoment(life.failed ? "last moved" : "last byte", life.last_byte_ns, begin_ns, text);
  if (life.last_byte_ns != 0) {
    absl::StrAppend(&text, " (", life.sent_bytes, " B sent, ", life.received_bytes, " B received)");
  }
  const std::string end =
      life.failed ? FailureCodeName(static_cast<FailureCode>(life.code)) : "done";
  AppendMoment(end.c_str(), life.ended_ns, begin_ns, text);
  for (const OperationLife::Carrier& carrier : life.carriers) {
    absl::StrAppend(&text, ", ", rails[carrier.track].name, " carried ",
                    carrier.at_least ? "at least " : "", carrier.frames,
                    carrier.frames == 1 ? " frame" : " frames", ", the last ",
                    Time(Since(now_ns, carrier.last_ns)), " ago");
  }
}

}  // namespace

std::string DescribeCall(const OperationLife& life) {
  const auto kind = static_cast<OperationKind>(life.operation);
  const auto type = static_cast<DataType>(life.data_type);
  if (!IsValid(kind) || !IsValid(type)) return {};
  const collective::Signature signature{kind,
                                        type,
                                        static_cast<ReduceOperator>(life.reduce_operator),
                                        life.bytes / DataTypeBytes(type),
                                        life.root,
                                        PlanKind::kAutomatic,
                                        0};
  return signature.Describe();
}

std::string StateOf(const OperationLife& life) {
  if (life.ended_ns != 0) return life.failed ? "failed" : "done";
  // Small data is sent without waiting, so a first byte does not by itself mean that all ranks have
  // called.
  if (life.first_byte_ns != 0 && !life.heard.empty()) return "moving";
  if (life.matched_ns != 0) return "matched";
  return life.submitted.empty() ? "early" : "called";
}

std::string DescribeLives(std::span<const OperationLife> lives,
                          std::span<const record::TrackCopy> rails, std::uint64_t now_ns) {
  if (lives.empty()) return "no operation";
  std::string text;
  for (const OperationLife& life : lives) {
    if (!text.empty()) text += "; ";
    AppendLife(life, rails, now_ns, text);
  }
  if (text.size() <= kDescribedBytesMax) return text;
  return absl::StrCat(std::string(Utf8Prefix(text, kDescribedBytesMax - 4)), " ...");
}

}  // namespace mlxcomm::record
