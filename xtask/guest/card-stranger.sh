# flashbench on three cards, in the order of the disks: one in slow motion, two at their own speed.
export LD_LIBRARY_PATH=/job/lib
modprobe virtio_blk
for name in vda vdb vdc; do
    [ -b /dev/$name ] || sleep 2
    # The largest request of an SD host of 2012.
    echo 512 >/sys/block/$name/queue/max_sectors_kb || exit 1
    echo 0 >/sys/block/$name/queue/rotational
done
unit=$((8 << 20)) block=$((1 << 20))

echo "== boundaries"
flashbench -a --blocksize=1024 -c 50 /dev/vda || exit 1
for count in 2 3 4 5 6; do
    echo "== preset open $count"
    flashbench -O -e $unit -b $block --open-au-nr=$count /dev/vdb || exit 1
done
echo "== preset random 5"
flashbench -O -r -e $unit -b $block --open-au-nr=5 /dev/vdb || exit 1
echo "== fat"
flashbench -f -r -e $unit -b $block /dev/vdb || exit 1
for count in 2 3 4; do
    echo "== hidden open $count"
    flashbench -O -e $unit -b $block --open-au-nr=$count /dev/vdc || exit 1
done
