#include "daemon/node/action_runner.h"

#include <algorithm>
#include <string>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/reduce/kernels.h"
#include "daemon/work/work_pieces.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::node {
namespace {

// Another node's text goes to the log and to processes; text much longer than they show is useless.
constexpr std::size_t kReportTextBytesMax = 2000;

// A reduction in the 32 bits that a posted receive has for it: there are far fewer than 2^16 ranks,
// and few operators.
constexpr std::uint32_t kReceivedFirst = 0x80;

std::uint32_t Pack(const reduce::Reduction& reduction, bool received_first) {
  return reduction.divisor << 16 | static_cast<std::uint32_t>(reduction.type) << 8 |
         (received_first ? kReceivedFirst : 0) | static_cast<std::uint32_t>(reduction.op);
}

reduce::Reduction Unpack(std::uint32_t packed) {
  return {static_cast<DataType>(packed >> 8 & 0xff), static_cast<ReduceOperator>(packed & 0x7f),
          packed >> 16};
}

// Runs on a rail's thread, or on the loop's for small data, while both buffers are in the cache.
void CombineReceived(const rail::PostedReceive& receive, std::uint64_t offset,
                     const std::byte* staged, std::uint32_t bytes) {
  const reduce::Reduction reduction = Unpack(receive.place_arguments);
  const std::byte* inputs[] = {receive.operand + offset, staged};
  if ((receive.place_arguments & kReceivedFirst) != 0) std::swap(inputs[0], inputs[1]);
  std::byte* const output = receive.destination + offset;
  reduce::Combine(reduction, inputs, 2, &output, 1, bytes / DataTypeBytes(reduction.type));
}

}  // namespace

void ActionRunner::CarryOut(std::uint64_t now_ns) {
  while (!collectives_.actions().empty()) {
    carrying_.swap(collectives_.actions());
    for (collective::Action& action : carrying_) CarryOutOne(action, now_ns);
    carrying_.clear();
  }
}

void ActionRunner::CarryOutOne(collective::Action& action, std::uint64_t now_ns) {
  using Kind = collective::Action::Kind;
  switch (action.kind) {
    case Kind::kSend: return Send(action, now_ns);
    case Kind::kPostReceive: return PostReceive(action, now_ns);
    case Kind::kWithdraw:
      if (!links_.IsReachable(action.node)) {
        return collectives_.OnWithdrawn(action.node, action.key, now_ns);
      }
      return links_.Withdraw(action.node, action.key);
    case Kind::kCancel: return links_.Cancel(action.node, action.key);
    case Kind::kLocalWork: return DoLocalWork(action, now_ns);
    case Kind::kReturnScratch: return scratch_.Return(action.destination);
    case Kind::kComplete:
      return processes_.Complete(action.session, action.ticket, action.key.group, action.failure,
                                 action.group_failed);
    case Kind::kMessage: return SendMessage(action.node, *action.message);
    case Kind::kGroupFailed: return jobs_.direct_groups().CloseForGood(action.key.group);
  }
}

void ActionRunner::Send(const collective::Action& action, std::uint64_t now_ns) {
  const wire::FrameHeader& frame = action.frame;
  const absl::Status sent = links_.Send(action.node, frame, action.source, action.cookie);
  if (sent.ok()) return;
  // The node is lost, which the group learns separately; nothing refers to the payload. The group
  // fails first, so that unsent data is not mistaken for received data.
  FailGroup(KeyOf(frame), "cannot send: ", sent, now_ns);
  if (frame.type == wire::FrameType::kData) collectives_.OnDataReleased(action.cookie);
}

void ActionRunner::PostReceive(const collective::Action& action, std::uint64_t now_ns) {
  rail::PostedReceive receive;
  receive.key = action.key;
  receive.step = action.step;
  receive.bytes = action.bytes;
  receive.destination = action.destination;
  if (action.operand != nullptr) {
    receive.place = &CombineReceived;
    receive.operand = action.operand;
    receive.place_arguments = Pack(action.reduction, action.received_first);
  }
  const absl::Status posted = links_.PostReceive(action.node, receive);
  if (!posted.ok()) FailGroup(action.key, "cannot receive: ", posted, now_ns);
}

void ActionRunner::FailGroup(const OperationKey& key, const char* what, const absl::Status& why,
                             std::uint64_t now_ns) {
  collective::Group* const group = collectives_.Find(key.group);
  if (group == nullptr) return;
  group->Fail({FailureCode::kUnavailable, kNoRank, absl::StrCat(what, std::string(why.message()))},
              key, now_ns);
}

void ActionRunner::DoLocalWork(const collective::Action& action, std::uint64_t now_ns) {
  if (port_.SubmitWork(action)) return;
  DoWork(*action.work);
  collectives_.OnLocalWorkDone(action.cookie, now_ns);
}

void ActionRunner::SendMessage(const NodeId& node, const v1::PeerMessage& message) {
  const std::string bytes = message.SerializeAsString();
  if (bytes.size() > wire::kControlBytesMax) {
    return spdlog::error("message to node {}: it has {} bytes, at most {} can be sent",
                         links_.NameOf(node), bytes.size(), wire::kControlBytesMax);
  }
  const wire::FrameHeader header{.type = wire::FrameType::kControl,
                                 .payload_bytes = static_cast<std::uint32_t>(bytes.size())};
  const absl::Status sent =
      links_.Send(node, header, reinterpret_cast<const std::byte*>(bytes.data()), 0);
  if (sent.ok()) return;
  spdlog::debug("message to node {}: {}", links_.NameOf(node), std::string(sent.message()));
}

void ActionRunner::OnFailureReport(const NodeId& node, v1::FailureReport& report,
                                   std::uint64_t now_ns) {
  const auto bound = [](std::string& text) {
    text = MakePrintable(Utf8Prefix(text, kReportTextBytesMax));
  };
  bound(*report.mutable_message());
  for (v1::RankCall& call : *report.mutable_calls()) {
    for (std::string* const text :
         {call.mutable_call(), call.mutable_own(), call.mutable_earlier_call()}) {
      bound(*text);
    }
  }
  collectives_.OnReport(node, report, now_ns);
  jobs_.membership().SpreadLoss(report.group(), now_ns);
}

// Entries beyond the bound count as missing: then a rank may still call.
void ActionRunner::OnRollCall(const NodeId& node, v1::RollCall& message, std::uint64_t now_ns) {
  constexpr std::uint64_t kWaitedMsMax = 1'000'000'000;
  while (message.waits_size() > static_cast<int>(collective::kLocalRanksMax))
    message.mutable_waits()->RemoveLast();
  for (v1::RankWait& wait : *message.mutable_waits()) {
    wait.set_waited_ms(std::min(wait.waited_ms(), kWaitedMsMax));
    if (wait.awaited_size() > collective::RollCall::kAwaitedMax) wait.set_awaits_more(true);
    if (wait.awaits_more()) wait.clear_awaited();
  }
  collectives_.OnRollCall(node, message, now_ns);
}

}  // namespace mlxcomm::node
