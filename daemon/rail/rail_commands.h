// What the loop asks of a rail that writes and reads frames (frame_writer.h, frame_reader.h),
// carried out in order: the same for a socket and for a queue pair.
//
// Thread: the one that drives the rail.
#pragma once

#include "daemon/rail/frame_reader.h"
#include "daemon/rail/frame_writer.h"
#include "daemon/rail/rail.h"
#include "daemon/rail/spsc_ring.h"

namespace mlxcomm::rail {

// As far as there is room for what commands call for. `ends`: nobody takes events any more, and what
// is still to be sent needs none. True: there was one.
bool ObeyCommands(SpscRing<RailCommand>& commands, FrameWriter& writer, FrameReader& reader,
                  FrameReaderPort& port, bool ends);

}  // namespace mlxcomm::rail
