package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// Doom says that what the body of a try spells must not stay.
func (c *Capture) Doom(request, try int) {
	c.doomed = append(c.doomed, frameAt(int32(request), int32(try), false, 0))
}

// Purge overwrites the doomed bodies of a capture that is closed. Their lengths,
// their stamps and their heads stay. It comes once everything was decoded: a
// process that is killed before has lost nothing.
func (c *Capture) Purge() error {
	if len(c.doomed) == 0 {
		return nil
	}
	file, ok := c.file.(io.WriterAt)
	if !ok {
		return errors.New("purge capture: its storage is append-only")
	}
	for _, body := range c.doomed {
		i, _ := slices.BinarySearchFunc(c.index, body, compareFrames)
		for ; i < len(c.index) && compareFrames(c.index[i], body) == 0; i++ {
			if err := c.wipe(file, c.index[i].off); err != nil {
				return fmt.Errorf("purge capture of request %d: %w", body.request, err)
			}
		}
	}
	c.doomed = nil
	return nil
}

// wipe overwrites one frame's bytes and puts its sum right.
func (c *Capture) wipe(file io.WriterAt, off int64) error {
	h, raw, err := c.load(off)
	if err != nil {
		return err
	}
	from := frameHeader + int(h.reads)*readSize
	for i := range raw[from:][:h.bytes] {
		raw[from+i] = '*'
	}
	sum := len(raw) - 4
	binary.LittleEndian.PutUint32(raw[sum:], crc32.ChecksumIEEE(raw[:sum]))
	_, err = file.WriteAt(raw[from:], off+int64(from))
	return err
}
