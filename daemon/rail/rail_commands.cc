#include "daemon/rail/rail_commands.h"

#include <utility>

namespace mlxcomm::rail {
namespace {

void Withdraw(const OperationKey& key, FrameReader& reader, FrameReaderPort& port) {
  reader.Forget(key);
  if (!port.HasRoomForEvent()) return;  // Only if `ends`.
  RailEvent event;
  event.kind = RailEvent::Kind::kWithdrawn;
  event.key = key;
  port.OnEvent(std::move(event));
}

void ExecuteCommand(const RailCommand& command, FrameWriter& writer, FrameReader& reader,
                    FrameReaderPort& port) {
  switch (command.kind) {
    case RailCommand::Kind::kTransmit: return writer.Queue(command.frame);
    case RailCommand::Kind::kPostReceive:
      return reader.posted().Expect(command.receive, command.share);
    case RailCommand::Kind::kForgetCompleted:
      return reader.posted().ForgetCompleted(command.key, command.step);
    case RailCommand::Kind::kHeartbeat: return writer.QueueHeartbeat(command.padded);
    case RailCommand::Kind::kWithdraw: return Withdraw(command.key, reader, port);
  }
}

}  // namespace

bool ExecuteCommands(SpscRing<RailCommand>& commands, FrameWriter& writer, FrameReader& reader,
                     FrameReaderPort& port, bool ends) {
  bool any = false;
  RailCommand command;
  while (writer.HasRoom() && (ends || port.HasRoomForEvent()) && commands.Pop(command)) {
    ExecuteCommand(command, writer, reader, port);
    any = true;
  }
  return any;
}

}  // namespace mlxcomm::rail
