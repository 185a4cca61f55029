"""A program that uses the package, for ``mypy --strict``; it is not run."""

import hashlib
import sys

import eraseblock


def main() -> int:
    with eraseblock.open(sys.argv[1]) as image:
        for name, volume in image.volumes.items():
            print(name, volume.kind, volume.size)
        for path in image.fs.root.rglob("*"):
            if path.is_file():
                found = path.stat()
                print(hashlib.sha256(path.read_bytes()).hexdigest(), oct(found.st_mode), found.st_uid, path)
        for finding in image.findings:
            print(finding.severity, finding.code, finding.message)
    return 0


sys.exit(main())
