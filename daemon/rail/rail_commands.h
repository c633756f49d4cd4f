// Carries out what the loop asks of a rail that writes and reads frames (frame_writer.h,
// frame_reader.h), in order.
//
// Thread: the one that drives the rail.
#pragma once

#include "daemon/rail/frame_reader.h"
#include "daemon/rail/frame_writer.h"
#include "daemon/rail/rail.h"
#include "daemon/rail/spsc_ring.h"

namespace mlxcomm::rail {

// Executes commands while there is room for what they cause. `ends`: no events are taken any more.
bool ExecuteCommands(SpscRing<RailCommand>& commands, FrameWriter& writer, FrameReader& reader,
                     FrameReaderPort& port, bool ends);

}  // namespace mlxcomm::rail
